// Everything on this machine, as processes: server, build agent, setup agent, and the supervisors of
// the installs that were set up here. What dies is started again; the end leaves nothing running.

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type AgentView,
  type Client,
  type InstallView,
  listAgents,
  listInstalls,
} from "@exclave/api";
import { asFailure } from "@exclave/core";
import { identifyProcess, readIfThere } from "@exclave/machine";
import type { Home } from "../connection/home.ts";
import { listAll } from "../connection/pages.ts";
import { readSettings, withContext, writeSettings } from "../connection/settings.ts";
import { type Cli, connectTo } from "../program/cli.ts";
import { plainEnvironment } from "../program/package-program.ts";
import { CliProblem } from "../program/problem.ts";
import { type ContainerEngine, hadEngine, provideEngine } from "./container-engine.ts";
import { choosePort, chooseTls } from "./port.ts";
import { endProcess, programsOf } from "./processes.ts";
import type { Programs } from "./programs.ts";
import { waitForTypes } from "./published-types.ts";
import { provideImages } from "./shipped.ts";
import { type Reached, takeUpLock, type UpLock } from "./up-lock.ts";
import { createVendorPrograms } from "./vendor-programs.ts";
import { type InstallWatch, watchInstalls } from "./watch-installs.ts";

export interface Up {
  readonly url: string;
  readonly client: Client;
  stop(): Promise<void>;
}

export interface UpOptions {
  readonly programs: Programs;
  readonly port: number | undefined;
  readonly tls: boolean;
  /** Installs here may be containers. */
  readonly wantsEngine: boolean;
  /** How agents reach the server; at its own address unless said. */
  readonly publicUrl: string | undefined;
  readonly say: (line: string) => void;
}

const READY_MS = 30_000;
const GRACE_MS = 10_000;
const HOME_BYTES_MAX = 350;

export async function startUp(cli: Cli, options: UpOptions): Promise<Up> {
  const { programs, port: wished, say } = options;
  const { home, invocation } = cli;
  checkHome(home);
  const lock = await takeUpLock(home);
  const environment = {
    ...plainEnvironment(invocation.environment),
    EXCLAVE_HOME: home.directory,
  };
  const vendor = createVendorPrograms({ ...options, cli, lock, environment });
  let watch: InstallWatch | undefined;
  let engine: ContainerEngine | undefined;
  let reachedServer: Client | undefined;
  try {
    await endAbandoned(lock, home, say, invocation.hurry);
    const images = await provideImages(invocation, programs.images, say);
    const isTls = await chooseTls(home, options.tls);
    const port = await choosePort(home, wished);
    const url = `${isTls ? "https" : "http"}://127.0.0.1:${port}`;
    const reached = { url, ...(isTls ? { caFile: home.serverCaFile } : {}) };
    await vendor.startServer(reached, port);
    const client = await connect(reached);
    reachedServer = client;
    if (options.wantsEngine || (await hadEngine(home))) {
      engine = await provideEngine({ home, environment: invocation.environment, say });
    }
    await vendor.startAgent("build", { client, reached, extra: ["--images", images] });
    // Where the local sandbox puts its installs is this program's to say: it looks after them.
    const installsHere = `local.installs=${home.installsDirectory}`;
    await vendor.startAgent("setup", {
      client,
      reached,
      extra: [installsHere, ...engineDefaults(engine)].flatMap((text) => [
        "--sandbox-default",
        text,
      ]),
    });
    // From here on the installs are ours to stop: before, a start that fails leaves them running.
    watch = watchInstalls({ home, environment, say });
    await watch.startAll();
    await engine?.startInstalls(await containerInstalls(client));
    await writeSettings(
      home,
      withContext(await readSettings(home), "local", {
        server: url,
        tokenFile: home.adminTokenFile,
        ...(isTls ? { caFile: home.serverCaFile } : {}),
      }),
    );
    await waitForAgents(client);
    const { now, signal } = invocation;
    await waitForTypes({ client, images, say, now, signal });
    return { url, client, stop };
  } catch (reason) {
    await stop();
    throw reason;
  }

  async function connect({ url, caFile }: Reached): Promise<Client> {
    const token = (await readIfThere(home.adminTokenFile))?.trim();
    if (!token)
      throw new CliProblem("failed", `the server left no token in ${home.adminTokenFile}`);
    return connectTo(url, { token, ca: caFile && (await readIfThere(caFile)) });
  }

  async function waitForAgents(client: Client): Promise<void> {
    const endsAt = invocation.now() + READY_MS;
    for (;;) {
      const agents = await listAll<AgentView>(client, listAgents);
      const online = agents.filter(({ status }) => status === "online").map(({ kind }) => kind);
      if (online.includes("build") && online.includes("setup")) break;
      if (invocation.now() > endsAt) {
        throw new CliProblem("failed", "the build and setup agents did not connect", {
          hint: `their logs are in ${home.logDirectory}`,
        });
      }
      await sleep(200, undefined, { signal: invocation.signal });
    }
    say("agents  build and setup are connected");
  }

  /** Installs first, so that their agents can still say good-bye. */
  async function stop(): Promise<void> {
    const { hurry } = invocation;
    if (engine && reachedServer) {
      await engine
        .stopInstalls(await containerInstalls(reachedServer))
        .catch((reason: unknown) =>
          say(`containers were not stopped: ${asFailure(reason).message}`),
        );
    }
    await watch?.stop(hurry);
    await vendor.stop({ graceMs: GRACE_MS, hurry });
    await engine?.stop();
    if (watch) await endLeftovers(home.directory, say, hurry);
    await lock.release();
  }
}

/** The server listens on this machine's loopback, so that the installs have to be on its network. */
function engineDefaults(engine: ContainerEngine | undefined): string[] {
  if (!engine) return [];
  return [`podman.socket=${engine.socket}`, "podman.network=host", "podman.exec=allowed"];
}

/** By id: those that are containers. One that is destroyed has none left. */
async function containerInstalls(client: Client): Promise<string[]> {
  const installs = await listAll<InstallView>(client, listInstalls);
  return installs.filter(({ sandbox }) => sandbox === "podman").map(({ id }) => id);
}

/** Databases and sockets below it have names of limited length; they fail in words nobody understands. */
function checkHome({ directory }: Home): void {
  const bytes = Buffer.byteLength(directory);
  if (bytes <= HOME_BYTES_MAX) return;
  const message = `the path of the home is ${bytes} bytes long, and at most ${HOME_BYTES_MAX} work`;
  throw new CliProblem("usage", `${message}; set EXCLAVE_HOME to a shorter one`);
}

/**
 * What a killed `up` started and could not stop: what its book says, and whatever else runs on this
 * home's server and agents, since a kill may come between a start and its line in the book.
 */
async function endAbandoned(
  lock: UpLock,
  home: Home,
  say: (line: string) => void,
  hurry: AbortSignal,
): Promise<void> {
  for (const { name, ...identity } of lock.abandoned?.children ?? []) {
    await endProcess(identity, { graceMs: GRACE_MS, hurry });
    say(`${name} of an earlier start was ended`);
  }
  for (const { pid, argv } of await programsOf(home.directory)) {
    if (!isVendorProgram(argv, home)) continue;
    const identity = identifyProcess(pid);
    if (!identity) continue;
    await endProcess(identity, { graceMs: GRACE_MS, hurry });
    say(`process ${pid} of an earlier start was ended`);
  }
}

/** The server or an agent of the vendor, as this program starts them; jobs and installs are not. */
export function isVendorProgram(argv: readonly string[], home: Home): boolean {
  const valueOf = (flag: string) => argv[argv.indexOf(flag) + 1];
  if (argv.includes("--data")) return valueOf("--data") === home.serverDirectory;
  if (!argv.includes("--home")) return false;
  const agents = ["build", "setup"].map((kind) => join(home.agentsDirectory, kind));
  return agents.includes(valueOf("--home") ?? "");
}

async function endLeftovers(home: string, say: (line: string) => void, hurry: AbortSignal) {
  const left = await programsOf(home);
  await Promise.all(
    left.map(async ({ pid, argv }) => {
      const identity = identifyProcess(pid);
      if (!identity) return;
      say(`ending what was left: ${argv.slice(0, 3).join(" ")}`);
      await endProcess(identity, { graceMs: 3_000, hurry });
    }),
  );
  const still = await programsOf(home);
  for (const { pid, argv } of still) say(`still running: ${pid} ${argv.join(" ")}`);
}
