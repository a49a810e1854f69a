// Sets an install up as a directory on this machine: its own registry, its own agent, and a small
// supervisor that keeps both up. What a network, a cluster and identities are elsewhere is here one
// directory that only its owner can read.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdir, readFile, rm } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  definePlugin,
  Failure,
  type OperationContext,
  type Plugin,
  SandboxContract,
  signalProcess,
  writeDurably,
  z,
} from "@exclave/plugin-sdk";
import { newContract, writeContract } from "./contract.ts";
import { programEnvironment } from "./environment.ts";
import { isThere, makeWritable } from "./files.ts";
import { findHome, isFree } from "./find-home.ts";
import { type Home, readContract } from "./home.ts";
import { runningProcess } from "./process-record.ts";
import { installPrograms, type ProgramSource } from "./programs.ts";
import { stopInstall, supervisorRecord } from "./stop-install.ts";
import { makeKeys } from "./token-keys.ts";

const path = () => z.string().refine(isAbsolute, "must be an absolute path");
const Config = z.object({
  directory: path()
    .optional()
    .describe("The install's home on this machine; made if it is not there."),
  installs: path()
    .optional()
    .describe("Where installs that name no directory get a home, by their name."),
});
type Context = OperationContext<z.infer<typeof Config>>;

const Parameters = z.object({
  joinString: z.string().optional(),
  /** Setup once more: the agent joins anew, whatever identity it has. */
  rejoin: z.boolean().default(false),
});
const Seeded = z.object({ digest: z.string() });

export interface LocalSandboxOptions {
  readonly programs: ProgramSource;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** How long registry and agent may take to come up. */
  readonly readyWithinMs?: number;
}

export function createLocalSandbox(options: LocalSandboxOptions): Plugin {
  return definePlugin({
    type: "local",
    description: "An install as a directory on this machine, for development and small installs",
    config: Config,
    outputs: {
      contract: { type: "any", description: "What the sandbox offers.", sensitive: false },
    },
    source: "none",
    artifactFor: { destroy: "ignored", status: "ignored" },

    async apply(context) {
      const home = await homeOf(context);
      const contract = await claimDirectory(context, home);
      const changed = await installPrograms(home, options.programs);
      if (changed.length > 0) context.log(`programs brought up to date: ${changed.join(", ")}`);
      const hasNewKeys = await makeKeys(home);
      await seedRegistry(context, home);
      const isJoining = await leaveJoinString(context, home);
      const needsRestart = changed.length > 0 || hasNewKeys || isJoining;
      await startSupervisor(context, home, options, needsRestart);
      await waitUntilReady(context, home, contract, options.readyWithinMs ?? 60_000);
      context.output("contract", contract);
    },

    async destroy(context) {
      const home = await homeOf(context);
      if (!(await isThere(home.directory))) {
        return context.log(`nothing is there: ${home.directory} does not exist`);
      }
      // Only what was made here is removed: a mistyped directory must not cost anybody their data.
      const contract = await readContract(home);
      if (contract && contract.install.id !== context.installId) {
        return context.log(`nothing of it is there: ${anothersHome(home, contract).message}`);
      }
      if (!contract && !(await isFree(home.directory))) {
        const message = `${home.directory} is not the home of an install and is left alone`;
        throw new Failure("conflict", message);
      }
      await stopInstall({ home, log: (message) => context.log(message) });
      await makeWritable(home.runtime);
      await rm(home.directory, { recursive: true, force: true, maxRetries: 3 });
      context.log(`removed ${home.directory} with its registry, its state and its agent`);
      context.resource("destroyed", "directory", home.directory);
    },

    async status(context) {
      const home = await homeOf(context);
      const contract = await readContract(home);
      if (contract?.install.id !== context.installId)
        return { health: "missing", because: `${home.directory} is not set up` };
      const problem = await findProblem(home, contract);
      return problem === undefined
        ? { health: "healthy", because: "supervisor, registry and agent are up" }
        : { health: "degraded", because: problem };
    },
  });
}

export const plugin = createLocalSandbox({
  programs: { directory: import.meta.dirname, node: process.execPath },
  environment: process.env,
});

/** Makes the directory this install's, before anything else is put there. */
async function claimDirectory(context: Context, home: Home): Promise<SandboxContract> {
  const install = installOf(context);
  const found = await readContract(home);
  if (found && found.install.id !== install.id) throw anothersHome(home, found);
  if (!found && !(await isFree(home.directory))) {
    throw new Failure("conflict", `${home.directory} holds something else already`);
  }
  await mkdir(home.directory, { recursive: true, mode: 0o700 });
  const claimed = found ?? (await newContract(install, home));
  const contract = context.artifact ? { ...claimed, runner: runnerOf(context.artifact) } : claimed;
  if (!found) context.resource("created", "directory", home.directory);
  if (!found || found.runner?.digest !== contract.runner?.digest) {
    await writeContract(home, contract);
  }
  const places = [home.registryContent, home.runtime, home.state, home.run, home.logs];
  for (const place of [...places, home.processes, join(home.agentIdentity, "..")]) {
    await mkdir(place, { recursive: true, mode: 0o700 });
  }
  return contract;
}

function installOf({ installId: id, install: name }: Context): SandboxContract["install"] {
  return SandboxContract.shape.install.parse({ id, name });
}

function runnerOf({ repository, digest }: NonNullable<Context["artifact"]>) {
  return SandboxContract.shape.runner.parse({ repository, digest });
}

function homeOf(context: Context): Promise<Home> {
  return findHome({ ...context.config, install: installOf(context) });
}

function anothersHome({ directory }: Home, { install: other }: SandboxContract): Failure {
  const message = `${directory} is the home of install ${other.name} (${other.id}), which is another`;
  return new Failure("conflict", message);
}

/** The first sync is run by the runner, so the runner has to be there before it. */
async function seedRegistry(context: Context, home: Home): Promise<void> {
  const { layout, artifact } = context;
  if (layout === undefined || artifact === undefined) {
    throw new Failure("invalid", "setup needs the runner image as its artifact");
  }
  const { rejoin } = Parameters.parse(context.parameters);
  const before = await readFile(home.seeded, "utf8").catch(() => undefined);
  const { repository, digest } = artifact;
  const isSeeded = before && Seeded.safeParse(JSON.parse(before)).data?.digest === digest;
  // Set up once more, it is not taken on trust that the registry still has it.
  if (isSeeded && !rejoin) return;
  context.log(`putting ${artifact.repository} into the install's registry`);
  const program = [join(home.programs, "registry.mjs"), "--directory", home.registryContent];
  const seed = ["--import-layout", layout, "--repository", repository, "--digest", digest];
  await context.run(home.node, [...program, ...seed, "--tag", "seed"]);
  await writeDurably(
    home.seeded,
    JSON.stringify({ digest: artifact.digest } satisfies z.infer<typeof Seeded>),
  );
}

/** Whether the agent is to join: it never did, or setup runs once more to make it anew. */
async function leaveJoinString({ parameters }: Context, home: Home): Promise<boolean> {
  const { joinString, rejoin } = Parameters.parse(parameters);
  if (!rejoin && (await isThere(home.agentIdentity))) return false;
  if (joinString === undefined) {
    throw new Failure("invalid", "setup needs a join string for the install's agent");
  }
  await writeDurably(home.joinFile, joinString);
  return true;
}

async function startSupervisor(
  context: Context,
  home: Home,
  { environment }: LocalSandboxOptions,
  needsRestart: boolean,
): Promise<void> {
  const running = await runningProcess(supervisorRecord(home));
  if (running) {
    if (!needsRestart) return;
    context.log("restarting agent and registry with what is new");
    signalProcess(running.pid, "SIGHUP");
    return;
  }
  const log = openSync(join(home.logs, "init.log"), "a", 0o600);
  try {
    const args = [join(home.programs, "init.mjs"), "--home", home.directory];
    const child = spawn(home.node, args, {
      cwd: home.directory,
      env: programEnvironment(environment, home.directory),
      stdio: ["ignore", log, log],
      // A session of its own: it is what this job leaves behind.
      detached: true,
    });
    await once(child, "spawn");
    child.unref();
  } catch (cause) {
    throw new Failure("plugin", "the supervisor of the install cannot be started", { cause });
  } finally {
    closeSync(log);
  }
}

async function waitUntilReady(
  context: Context,
  home: Home,
  contract: SandboxContract,
  withinMs: number,
): Promise<void> {
  const until = performance.now() + withinMs;
  let shown: string | undefined;
  for (;;) {
    const problem = await findProblem(home, contract);
    if (problem === undefined) return;
    if (problem !== shown) context.progress(problem);
    shown = problem;
    if (context.signal.aborted) throw new Failure("cancelled", "stopped while the install came up");
    if (performance.now() >= until) {
      const said = (await lastLines(home)).join("; ");
      throw new Failure("timeout", `the install did not come up: ${problem}${said && `. ${said}`}`);
    }
    await sleep(100);
  }
}

/** What keeps the sandbox from being whole, in words; undefined when nothing does. */
async function findProblem(home: Home, { registry }: SandboxContract): Promise<string | undefined> {
  if (!(await runningProcess(supervisorRecord(home)))) return "the supervisor is not running";
  if (!(await answers(registry.url))) return `the registry does not answer at ${registry.url}`;
  const isJoining = await isThere(home.joinFile);
  if (isJoining || !(await isThere(home.agentIdentity))) return "the agent has not joined yet";
  if (!(await isThere(home.agentTrust))) return "the agent has lost its trust document";
  return undefined;
}

/** A registry that asks for a token is one that answers. */
async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/v2/`, { signal: AbortSignal.timeout(2_000) });
    await response.body?.cancel();
    return response.status === 200 || response.status === 401;
  } catch {
    return false;
  }
}

async function lastLines(home: Home): Promise<string[]> {
  const names = ["init", "registry", "agent"];
  const last = await Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(home.logs, `${name}.log`), "utf8").catch(() => "");
      const line = text.trimEnd().split("\n").at(-1);
      return line ? [`${name} said: ${line}`] : [];
    }),
  );
  return last.flat();
}
