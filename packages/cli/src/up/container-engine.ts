// The container engine that installs of this machine run on: one that answers already, or a Podman that is started
// for as long as `up` runs, on a socket of its own. Containers do not end with the engine's service, so that `up`
// stops those of its installs and starts them again.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { access, mkdir, rm } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createEngineClient, enginePath, LABELS, ownedBy } from "@exclave/machine/engine";
import { z } from "zod";
import type { Home } from "../connection/home.ts";
import type { Invocation } from "../program/cli.ts";
import { CliProblem } from "../program/problem.ts";

export interface ContainerEngine {
  readonly socket: string;
  /** Starts what an earlier `up` stopped of these installs, by id. */
  startInstalls(ids: readonly string[]): Promise<void>;
  stopInstalls(ids: readonly string[]): Promise<void>;
  /** Ends the engine's service, where it was started here. */
  stop(): Promise<void>;
}

export interface EngineOptions {
  readonly home: Pick<Home, "engineDirectory">;
  readonly environment: Invocation["environment"];
  readonly say: (line: string) => void;
}

const USUAL_SOCKET = "/run/podman/podman.sock";
const STOP_SECONDS = 10;
const Containers = z.array(
  z.object({ Id: z.string(), Labels: z.record(z.string(), z.string()).nullish() }),
);

/** Whether an earlier `up` had one: its installs need it again. */
export function hadEngine({ engineDirectory }: EngineOptions["home"]): Promise<boolean> {
  return isThere(engineDirectory);
}

export async function provideEngine(options: EngineOptions): Promise<ContainerEngine> {
  const { home, environment, say } = options;
  await mkdir(home.engineDirectory, { recursive: true, mode: 0o700 });
  const given = environment.EXCLAVE_ENGINE_SOCKET;
  const own = join(home.engineDirectory, "podman.sock");
  const there = await firstThatAnswers(given === undefined ? [own, USUAL_SOCKET] : [given]);
  if (there === undefined && given !== undefined) {
    throw new CliProblem("failed", `no container engine answers at ${given}`);
  }
  const service = there === undefined ? await startPodman(own, options) : undefined;
  const socket = there ?? own;
  say(`engine  ${service ? "Podman is started" : "a container engine answers"} at ${socket}`);
  const engine = createEngineClient(socket);

  return { socket, startInstalls, stopInstalls, stop };

  async function startInstalls(ids: readonly string[]): Promise<void> {
    await each(ids, async ({ Id, Labels }) => {
      // A job that ended stays so.
      if (Labels?.[LABELS.job] !== undefined) return;
      await engine.send("POST", `/containers/${Id}/start`, { expected: [304] });
    });
  }

  async function stopInstalls(ids: readonly string[]): Promise<void> {
    await each(ids, async ({ Id }) => {
      await engine.send("POST", enginePath(`/containers/${Id}/stop`, { t: STOP_SECONDS }), {
        expected: [304, 404, 500],
      });
    });
  }

  async function each(
    ids: readonly string[],
    work: (container: z.infer<typeof Containers>[number]) => Promise<void>,
  ): Promise<void> {
    for (const id of ids) {
      const filters = ownedBy(`exclave-${id}`);
      const path = enginePath("/containers/json", { all: 1, filters });
      await Promise.all((await engine.read(path, Containers)).map(work));
    }
  }

  async function stop(): Promise<void> {
    if (!service || service.exitCode !== null || service.signalCode !== null) return;
    const ended = once(service, "exit");
    service.kill("SIGTERM");
    const timer = setTimeout(() => service.kill("SIGKILL"), STOP_SECONDS * 1_000);
    await ended;
    clearTimeout(timer);
  }
}

async function startPodman(
  socket: string,
  { home, environment }: EngineOptions,
): Promise<ChildProcess> {
  if (!(await isOnPath("podman", environment.PATH))) {
    throw new CliProblem("usage", "there is no container engine here, and no podman to start one", {
      hint: "install podman, or name an engine's socket in EXCLAVE_ENGINE_SOCKET",
    });
  }
  // Podman's usual runtime is not everywhere.
  const hasCrun = await isOnPath("crun", environment.PATH);
  const runtime = hasCrun ? [] : ["--runtime", "runc"];
  const hasSystemd = await isThere("/run/systemd/system");
  const cgroups = hasSystemd ? [] : ["--cgroup-manager", "cgroupfs"];
  await rm(socket, { force: true });
  const args = [...runtime, ...cgroups, "system", "service", "--time", "0", `unix://${socket}`];
  const service = spawn("podman", args, {
    cwd: home.engineDirectory,
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...environment },
    // Ctrl-C is for `up`, which still has something to ask of it.
    detached: true,
  });
  let said = "";
  service.stderr.on("data", (chunk: Buffer) => (said = `${said}${chunk.toString()}`.slice(-500)));
  await once(service, "spawn");
  for (let looks = 0; looks < 300 && service.exitCode === null; looks++) {
    if (await answers(socket)) return service;
    await sleep(100);
  }
  service.kill("SIGKILL");
  throw new CliProblem("failed", `podman does not come up: ${said.trim() || "it says nothing"}`);
}

async function firstThatAnswers(sockets: readonly string[]): Promise<string | undefined> {
  for (const socket of sockets) if (await answers(socket)) return socket;
  return undefined;
}

function answers(socket: string): Promise<boolean> {
  return createEngineClient(socket)
    .read("/info", z.unknown())
    .then(
      () => true,
      () => false,
    );
}

async function isOnPath(program: string, path = ""): Promise<boolean> {
  const places = [...path.split(delimiter), "/usr/bin", "/usr/sbin"];
  const found = await Promise.all(places.map((place) => isThere(join(place, program))));
  return found.includes(true);
}

function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
