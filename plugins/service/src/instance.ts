// One instance of a service: a version of its files with one configuration, in a directory that its
// supervisor and the jobs share. Each file has one writer: jobs write the spec and which supervisor they
// started, and send signals; the supervisor writes the status.

import { spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { writeDurablySync } from "@exclave/plugin-sdk/durable-files";
import {
  identifyProcess,
  isRunning,
  type ProcessIdentity,
  signalProcess,
} from "@exclave/plugin-sdk/processes";

export interface ServiceSpec {
  readonly name: string;
  readonly argv: readonly [string, ...string[]];
  readonly cwd: string;
  /** May hold secrets; the spec is readable by its owner alone. */
  readonly environment: Readonly<Record<string, string>>;
  readonly port: number;
  readonly graceMs: number;
  readonly logBytesMax: number;
  /** Where the supervisor leaves word of itself for the sandbox. */
  readonly runFile: string;
}

export interface ServiceStatus {
  readonly state: "running" | "backing-off" | "stopped";
  readonly supervisor: ProcessIdentity;
  readonly program?: ProcessIdentity;
  readonly restarts: number;
  /** How the program ended the last time it did, in words. */
  readonly lastExit?: string;
}

export interface SupervisorProgram {
  readonly node: string;
  readonly script: string;
}

export function instanceFiles(directory: string) {
  return {
    spec: join(directory, "spec.json"),
    status: join(directory, "status.json"),
    started: join(directory, "started.json"),
    log: join(directory, "service.log"),
    olderLog: join(directory, "service.log.1"),
    supervisorLog: join(directory, "supervisor.log"),
  };
}

export function readSpec(directory: string): ServiceSpec | undefined {
  return readJson(instanceFiles(directory).spec) as ServiceSpec | undefined;
}

/** What the supervisor said last; of one that was just started and said nothing yet, that it is there. */
export function readStatus(directory: string): ServiceStatus | undefined {
  const said = readSaidStatus(directory);
  const started = readJson(instanceFiles(directory).started) as ProcessIdentity | undefined;
  const isSaidByIt =
    said?.supervisor.pid === started?.pid && said?.supervisor.startTime === started?.startTime;
  if (isSaidByIt || !isRunning(started)) return said;
  // A program of an earlier life that still runs is this one's to end, or whoever stops it.
  const program = isRunning(said?.program) ? { program: said.program } : {};
  return { state: "backing-off", supervisor: started, restarts: 0, ...program };
}

/** The status as it was written, whoever's supervisor wrote it. */
export function readSaidStatus(directory: string): ServiceStatus | undefined {
  return readJson(instanceFiles(directory).status) as ServiceStatus | undefined;
}

export function writeSpec(directory: string, spec: ServiceSpec): void {
  writeJson(instanceFiles(directory).spec, spec);
}

export function writeStatus(directory: string, status: ServiceStatus): void {
  writeJson(instanceFiles(directory).status, status);
}

/** Whole or not at all, and for its owner's eyes alone. */
export function writeJson(path: string, value: unknown): void {
  writeDurablySync(path, JSON.stringify(value));
}

/** These files are written by us, whole: the caller knows what is in them. */
export function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}

/** Starts the supervisor in a session of its own: it outlives the job that starts it. */
export function startInstance(directory: string, { node, script }: SupervisorProgram): void {
  const log = openSync(instanceFiles(directory).supervisorLog, "a", 0o600);
  try {
    const child = spawn(node, [script, directory], {
      cwd: directory,
      detached: true,
      stdio: ["ignore", log, log],
      // It needs nothing of ours; the program's environment is in the spec.
      env: {},
    });
    child.unref();
    // On record before it says so itself, so that it can be stopped from its first moment on; in a file
    // of our own, so that this never takes back what the supervisor has said by now.
    const supervisor = child.pid === undefined ? undefined : identifyProcess(child.pid);
    if (supervisor) writeJson(instanceFiles(directory).started, supervisor);
  } finally {
    closeSync(log);
  }
}

/** Returns once neither supervisor nor program runs. */
export async function stopInstance(directory: string): Promise<void> {
  const status = readStatus(directory);
  if (!status) return;
  const graceMs = (readSpec(directory)?.graceMs ?? 10_000) + 5_000;
  if (isRunning(status.supervisor)) signalProcess(status.supervisor.pid, "SIGTERM");
  if (!(await isGone(status.supervisor, graceMs)) && isRunning(status.supervisor)) {
    signalProcess(status.supervisor.pid, "SIGKILL");
    await isGone(status.supervisor, 5_000);
  }
  // The supervisor takes the program with it, unless it was killed itself.
  const { program } = readStatus(directory) ?? status;
  signalGroup(program, "SIGTERM");
  if (!(await isGone(program, graceMs))) {
    signalGroup(program, "SIGKILL");
    await isGone(program, 5_000);
  }
}

async function isGone(identity: ProcessIdentity | undefined, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (isRunning(identity)) {
    if (performance.now() > deadline) return false;
    await sleep(25);
  }
  return true;
}

/** The program's last lines, across the rotation of its log. */
export function tailLog(directory: string, lines: number): string[] {
  const { log, olderLog } = instanceFiles(directory);
  const text = [olderLog, log].map((path) => (existsSync(path) ? readFileSync(path, "utf8") : ""));
  const all = text.join("").replace(/\n$/, "").split("\n");
  return all.slice(Math.max(0, all.length - lines));
}

/** To every process of the group it leads; to nobody if it is gone. */
export function signalGroup(identity: ProcessIdentity | undefined, signal: NodeJS.Signals): void {
  if (isRunning(identity)) signalProcess(-identity.pid, signal);
}
