// The vendor's programs on this machine: the server, the build agent and the setup agent.

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createJoin } from "@exclave/api";
import { readIfThere, writeDurably } from "@exclave/machine";
import { z } from "zod";
import type { Cli } from "../program/cli.ts";
import { CliProblem } from "../program/problem.ts";
import { serverEnvironment } from "../program/server-environment.ts";
import { type ChildProgram, createChildProgram } from "./child-program.ts";
import type { Programs } from "./programs.ts";
import type { Reached, UpLock } from "./up-lock.ts";

export interface VendorPrograms {
  /** Returns when the server has said that it is ready. */
  startServer(reached: Reached, port: number): Promise<void>;
  startAgent(kind: "build" | "setup", wishes: AgentWishes): Promise<void>;
  /** The server last. */
  stop(options: { readonly graceMs: number; readonly hurry: AbortSignal }): Promise<void>;
}

export interface VendorProgramsOptions {
  readonly cli: Pick<Cli, "home" | "invocation">;
  readonly programs: Programs;
  /** Writes down what runs, for whoever comes after a kill. */
  readonly lock: UpLock;
  readonly environment: Readonly<Record<string, string>>;
  readonly publicUrl: string | undefined;
  readonly say: (line: string) => void;
}

interface ChildWishes {
  readonly args: () => Promise<readonly string[]>;
  readonly onLine?: (line: string) => void;
  readonly reached: Reached;
  /** Environment that no other child has. */
  readonly more?: Readonly<Record<string, string>>;
}

export interface AgentWishes {
  readonly client: Client;
  readonly reached: Reached;
  readonly extra: readonly string[];
}

const READY_MS = 30_000;
/** A server lets its agents go one by one where others take them, within 45 seconds, and then writes down what it knows. */
const DRAIN_MS_MAX = 60_000;

export function createVendorPrograms(options: VendorProgramsOptions): VendorPrograms {
  const { programs, lock, environment, publicUrl, say } = options;
  const { home, invocation } = options.cli;
  const children: ChildProgram[] = [];

  return {
    startServer,
    startAgent,
    async stop(options) {
      const [server, ...agents] = children;
      await Promise.all(agents.map((agent) => agent.stop(options)));
      await server?.stop({ ...options, graceMs: Math.max(options.graceMs, DRAIN_MS_MAX) });
    },
  };

  async function startServer(reached: Reached, port: number): Promise<void> {
    const ready = Promise.withResolvers<void>();
    let reason: string | undefined;
    // Ended before anybody listens, it is no unhandled rejection.
    ready.promise.catch(() => undefined);
    const server = child("server", {
      args: async () => [
        programs.server,
        "--data",
        home.serverDirectory,
        "--address",
        `127.0.0.1:${port}`,
        ...(reached.caFile === undefined ? [] : ["--tls"]),
        ...(publicUrl === undefined ? [] : ["--public-url", publicUrl]),
      ],
      onLine: (line) => {
        const word = readStartWord(line);
        if (word?.ready === true) return ready.resolve();
        if (word?.ready !== false) return;
        reason = word.reason;
        if (!word.mayPass)
          ready.reject(new CliProblem("failed", `the server cannot start: ${reason}`));
      },
      reached,
      more: serverEnvironment(invocation.environment),
    });
    await server.start();
    const late = sleep(READY_MS, "late" as const, { signal: invocation.signal, ref: false });
    if ((await Promise.race([ready.promise, late])) === "late") {
      const why = reason === undefined ? "" : `: ${reason}`;
      throw new CliProblem("failed", `the server did not become ready${why}`, {
        hint: `its log: ${logFile("server")}`,
      });
    }
    say(`server  ready at ${reached.url}`);
  }

  async function startAgent(kind: "build" | "setup", { client, reached, extra }: AgentWishes) {
    const directory = join(home.agentsDirectory, kind);
    const agent = child(`${kind} agent`, {
      async args() {
        const join = await joinArguments(kind, directory, client);
        return [programs.agent, kind, "--home", directory, ...extra, ...join];
      },
      reached,
    });
    await agent.start();
  }

  function child(name: string, { args, onLine, reached, more = {} }: ChildWishes): ChildProgram {
    const made = createChildProgram({
      name,
      program: programs.node,
      args,
      environment: { ...environment, ...more },
      logFile: logFile(name),
      say,
      ...(onLine ? { onLine } : {}),
      onChange: () => lock.record(reached, () => living(children)),
    });
    children.push(made);
    return made;
  }

  function logFile(name: string): string {
    return join(home.logDirectory, `${name.replace(" ", "-")}.log`);
  }
}

/** The agent's own key says whether it has joined; the token is for the first time only. */
async function joinArguments(
  kind: "build" | "setup",
  directory: string,
  client: Client,
): Promise<string[]> {
  const file = join(directory, "join");
  const identities = [join(directory, "identity.json"), join(directory, "agent", "identity.json")];
  const found = await Promise.all(identities.map(readIfThere));
  if (found.some((text) => text !== undefined)) return [];
  const { joinString } = await client.call(createJoin, { body: { kind } });
  await writeDurably(file, `${joinString}\n`);
  return ["--join-file", file];
}

function living(children: readonly ChildProgram[]) {
  return children.flatMap((child) => {
    const identity = child.identity();
    return identity ? [{ name: child.name, ...identity }] : [];
  });
}

const StartWord = z.discriminatedUnion("ready", [
  z.object({ ready: z.literal(true) }),
  z.object({ ready: z.literal(false), reason: z.string(), mayPass: z.boolean() }),
]);

/** What a server says of its own start, as the one line of its stdout. */
function readStartWord(line: string): z.infer<typeof StartWord> | undefined {
  try {
    return StartWord.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}
