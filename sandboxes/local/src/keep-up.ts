// Keeps one program up: starts it, starts it again when it ends, however it ended, and waits longer
// each time it ends soon. Its output goes straight into a file, so it does not depend on us.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { copyFile, stat, truncate } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { identifyProcess } from "@exclave/plugin-sdk";
import { ended, recordProcess, runningProcess, stopProcess } from "./process-record.ts";

const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 5_000;
/** A program that stayed up this long starts with a clean slate. */
const SETTLED_MS = 10_000;
const LOG_BYTES_MAX = 5 * 1024 * 1024;
const LOG_LOOK_MS = 30_000;
const RECORD_AGAIN_MS = 1_000;

export interface KeptProgram {
  readonly name: string;
  readonly argv: readonly [string, ...string[]];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly logFile: string;
  /** Where word of the running process is left. */
  readonly recordFile: string;
  readonly log: (message: string) => void;
  readonly stopGraceMs: number;
}

export interface Keeping {
  /** Ends the program once; it comes back at once, from what now lies on disk. */
  restart(): Promise<void>;
  /** Ends the program for good and returns when it is gone. */
  stop(): Promise<void>;
}

/** How long to wait before the next start, from how long it stayed up and how long it waited before. */
export function nextWait(lastWaitMs: number, stayedUpMs: number): number {
  if (stayedUpMs >= SETTLED_MS || lastWaitMs === 0) return FIRST_WAIT_MS;
  return Math.min(lastWaitMs * 2, LONGEST_WAIT_MS);
}

export function keepUp(program: KeptProgram): Keeping {
  const stopping = new AbortController();
  let child: ChildProcess | undefined;
  let isRestartWanted = false;
  const running = loop();
  return { restart, stop };

  async function loop(): Promise<void> {
    await endPredecessor();
    let waitMs = 0;
    while (!stopping.signal.aborted) {
      const startedAt = performance.now();
      const how = await runOnce();
      if (stopping.signal.aborted) return;
      waitMs = isRestartWanted ? 0 : nextWait(waitMs, performance.now() - startedAt);
      isRestartWanted = false;
      program.log(`${program.name} ${how}; starting it again in ${waitMs} ms`);
      await sleep(waitMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  }

  /** An earlier life of ours may have been killed and left its child running. */
  async function endPredecessor(): Promise<void> {
    const before = await runningProcess(program.recordFile);
    if (!before) return;
    program.log(`${program.name} was left running by an earlier life; ending it`);
    await stopProcess(before, { graceMs: program.stopGraceMs });
  }

  async function runOnce(): Promise<string> {
    await capLog(program.logFile);
    const log = openSync(program.logFile, "a", 0o600);
    const capping = setInterval(() => void capLog(program.logFile), LOG_LOOK_MS);
    try {
      const [file, ...args] = program.argv;
      child = spawn(file, args, {
        cwd: program.cwd,
        env: { ...program.environment },
        stdio: ["ignore", log, log],
      });
      const end = once(child, "exit");
      end.catch(() => undefined);
      await once(child, "spawn");
      if (child.pid !== undefined) await putOnRecord(child);
      // A stop that came while it was starting found nobody to signal.
      if (stopping.signal.aborted) child.kill("SIGTERM");
      const [code, signal] = await end;
      return signal ? `was ended by ${signal}` : `ended with ${code}`;
    } catch (reason) {
      return `could not be started (${String(reason)})`;
    } finally {
      child = undefined;
      clearInterval(capping);
      closeSync(log);
    }
  }

  /** A full disk is no reason to start a second one beside it: it is put on record once there is room. */
  async function putOnRecord(started: ChildProcess): Promise<void> {
    try {
      await recordProcess(program.recordFile, started.pid ?? 0);
    } catch (reason) {
      program.log(`${program.name} runs, but cannot be put on record yet: ${String(reason)}`);
      setTimeout(() => {
        if (started === child) void putOnRecord(started);
      }, RECORD_AGAIN_MS).unref();
    }
  }

  async function restart(): Promise<void> {
    isRestartWanted = true;
    await endChild();
  }

  async function stop(): Promise<void> {
    stopping.abort();
    await endChild();
    await running;
  }

  async function endChild(): Promise<void> {
    const current = child;
    const identity = current?.pid === undefined ? undefined : identifyProcess(current.pid);
    if (!identity) return;
    const inTime = await stopProcess(identity, { graceMs: program.stopGraceMs });
    if (!inTime) program.log(`${program.name} did not end by itself and was killed`);
    await ended(identity, Number.POSITIVE_INFINITY);
  }
}

/** Moves a log that grew too large aside. The program appends, so it goes on at the new start. */
export async function capLog(path: string, bytesMax = LOG_BYTES_MAX): Promise<void> {
  try {
    if ((await stat(path)).size <= bytesMax) return;
    await copyFile(path, `${path}.1`);
    await truncate(path);
  } catch (reason) {
    // Not there yet, or no room for the copy: the next look retries.
    if (!["ENOENT", "ENOSPC"].includes((reason as NodeJS.ErrnoException).code ?? "")) throw reason;
  }
}
