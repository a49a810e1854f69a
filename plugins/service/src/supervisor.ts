// Keeps one program up. It is started by an apply, outlives job and agent, restarts the program when
// it ends, keeps its log from growing without end, and takes it down when it is told to stop. It needs
// nothing but its directory: `node supervisor.mjs <instance directory>`.

import { type ChildProcess, spawn } from "node:child_process";
import {
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  identifyProcess,
  isRunning,
  type ProcessIdentity,
  signalProcess,
} from "@exclave/plugin-sdk/processes";
import {
  instanceFiles,
  readSaidStatus,
  readSpec,
  type ServiceSpec,
  type ServiceStatus,
  signalGroup,
  writeJson,
  writeStatus,
} from "./instance.ts";

const BACKOFF_MS = { first: 200, most: 10_000 };
/** A program that stayed up this long is forgiven its earlier ends. */
const SETTLED_MS = 10_000;
const LOG_CHECK_MS = 5_000;

const directory = process.argv[2];
if (!directory) throw new Error("usage: supervisor <instance directory>");
keepFromFirstVictims();
await supervise(directory);

/** The job that starts a service is the first to go when memory runs out; the service is no job. */
function keepFromFirstVictims(): void {
  try {
    writeFileSync("/proc/self/oom_score_adj", "0");
  } catch {
    // Not Linux, or somebody with more rights wants it otherwise.
  }
}

async function supervise(directory: string): Promise<void> {
  const spec = readSpec(directory);
  const self = identifyProcess(process.pid);
  if (!spec || !self) throw new Error(`${directory} holds no service`);

  const earlier = readSaidStatus(directory);
  if (earlier?.supervisor.pid !== self.pid && isRunning(earlier?.supervisor)) return;
  // A supervisor that was killed left its program behind, and that one holds the port.
  await endProgram(earlier?.program, spec.graceMs);

  const stopping = new AbortController();
  let status: ServiceStatus = { state: "backing-off", supervisor: self, restarts: 0 };
  const update = (change: Partial<ServiceStatus>) => {
    status = { ...status, ...change };
    writeStatus(directory, status);
  };
  process.on("SIGTERM", () => stopping.abort());
  process.on("SIGINT", () => stopping.abort());
  update({});
  leaveWord(spec, self);
  const rotation = setInterval(() => rotateLog(directory, spec.logBytesMax), LOG_CHECK_MS);

  let backoffMs = BACKOFF_MS.first;
  while (!stopping.signal.aborted) {
    const startedAt = performance.now();
    const lastExit = await runOnce(directory, spec, stopping.signal, (program) =>
      update({ state: "running", program }),
    );
    if (stopping.signal.aborted) break;
    if (performance.now() - startedAt > SETTLED_MS) backoffMs = BACKOFF_MS.first;
    const { program: _, ...rest } = status;
    status = rest;
    update({ state: "backing-off", restarts: status.restarts + 1, lastExit });
    await sleep(backoffMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    backoffMs = Math.min(backoffMs * 2, BACKOFF_MS.most);
  }

  clearInterval(rotation);
  const { program: _, ...rest } = status;
  status = rest;
  update({ state: "stopped" });
}

/** One life of the program; returns how it ended. Asked to stop, it ends the program first. */
async function runOnce(
  directory: string,
  spec: ServiceSpec,
  stopping: AbortSignal,
  onStart: (program: ProcessIdentity) => void,
): Promise<string> {
  // The file itself and not a pipe: the program goes on writing if the supervisor is killed.
  const log = openSync(instanceFiles(directory).log, "a", 0o600);
  const [file, ...args] = spec.argv;
  let child: ChildProcess;
  try {
    child = spawn(file, args, {
      cwd: spec.cwd,
      env: { ...spec.environment },
      stdio: ["ignore", log, log],
      // A group of its own, so that what the program starts ends with it.
      detached: true,
    });
  } finally {
    closeSync(log);
  }
  const ended = new Promise<string>((resolve) => {
    child.on("error", (reason) => resolve(`cannot be started: ${reason.message}`));
    child.on("exit", (code, signal) =>
      resolve(signal ? `was ended by ${signal}` : `exited with ${code}`),
    );
  });
  const program = child.pid === undefined ? undefined : identifyProcess(child.pid);
  if (program) onStart(program);

  const stop = new Promise<void>((resolve) => {
    if (stopping.aborted) resolve();
    stopping.addEventListener("abort", () => resolve(), { once: true });
  });
  await Promise.race([ended, stop]);
  if (stopping.aborted) await endProgram(program, spec.graceMs);
  const how = await ended;
  // What the program started and did not end itself would hold the port of the next one.
  if (program) signalProcess(-program.pid, "SIGKILL");
  return how;
}

async function endProgram(program: ProcessIdentity | undefined, graceMs: number): Promise<void> {
  signalGroup(program, "SIGTERM");
  const deadline = performance.now() + graceMs;
  while (isRunning(program) && performance.now() < deadline) await sleep(25);
  signalGroup(program, "SIGKILL");
}

/** How the sandbox stops us when the machine goes down, and starts us again when it is back. */
function leaveWord(spec: ServiceSpec, { pid, startTime }: ProcessIdentity): void {
  mkdirSync(dirname(spec.runFile), { recursive: true });
  const argv = [process.execPath, ...process.argv.slice(1)];
  writeJson(spec.runFile, { name: spec.name, pid, startTime, argv, cwd: process.cwd() });
}

/** Copied and cut rather than renamed: the program keeps its file open and appends. */
function rotateLog(directory: string, bytesMax: number): void {
  const { log, olderLog } = instanceFiles(directory);
  try {
    if (statSync(log).size <= bytesMax) return;
    copyFileSync(log, olderLog);
    truncateSync(log);
  } catch (reason) {
    console.error("cannot rotate the log:", reason);
  }
}
