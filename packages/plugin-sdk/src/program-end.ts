// How a program that was started came to its end: whether it was ended from outside, whether memory
// ran out, and when its output is over though somebody it left behind still holds it.

import type { ChildProcess } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { Failure } from "@exclave/core";

export interface ProgramEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Killed by the kernel, because the machine or the job's container had no memory left. */
  readonly isOutOfMemory: boolean;
}

export interface WatchedProgram {
  /** Settles when the program has ended and what it said was read. */
  readonly ended: Promise<ProgramEnd>;
}

export interface WatchOptions {
  /** How long after the program's end its output may stay open. */
  readonly outputGraceMs?: number;
  /** How often the kernel has killed for want of memory; this machine's own count unless given. */
  readonly memoryKills?: () => number;
  /** A process that was left behind keeps the output open; from here on it is not read. */
  readonly onOutputCut?: () => void;
}

const OUTPUT_GRACE_MS = 2_000;
/** Above the runner's own, so that the kernel takes the program and the runner can say so. */
const VICTIM_SCORE = 200;

/** To be called in the same turn as `spawn`. */
export function watchProgram(child: ChildProcess, options: WatchOptions = {}): WatchedProgram {
  const { outputGraceMs = OUTPUT_GRACE_MS, memoryKills = kernelMemoryKills, onOutputCut } = options;
  const { promise, resolve, reject } = Promise.withResolvers<ProgramEnd>();
  const killsBefore = memoryKills();
  let isOutOfMemory = false;
  let cut: NodeJS.Timeout | undefined;
  if (child.pid !== undefined) preferAsVictim(child.pid);

  child.once("error", reject);
  child.once("exit", (_, signal) => {
    isOutOfMemory = signal === "SIGKILL" && memoryKills() > killsBefore;
    cut = setTimeout(() => {
      onOutputCut?.();
      child.stdout?.destroy();
      child.stderr?.destroy();
    }, outputGraceMs);
  });
  child.once("close", (code, signal) => {
    clearTimeout(cut);
    resolve({ code, signal, isOutOfMemory });
  });
  return { ended: promise };
}

const CRASHES: readonly string[] = ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP"];

/** The failure of a program that others ended; undefined where its end is its own. */
export function killedFailure(what: string, end: ProgramEnd): Failure | undefined {
  const { signal, isOutOfMemory } = end;
  if (signal === null || CRASHES.includes(signal)) return undefined;
  const details = { signal };
  if (isOutOfMemory) {
    const message = `${what} was killed because there was no memory left`;
    return new Failure("out_of_memory", message, { details });
  }
  return new Failure("killed", `${what} was killed by ${signal}`, { details });
}

/** How often this system's kernel has killed for want of memory; 0 where it does not say. */
function kernelMemoryKills(): number {
  try {
    const counted = /^oom_kill ([0-9]+)$/m.exec(readFileSync("/proc/vmstat", "utf8"));
    return Number(counted?.[1] ?? 0);
  } catch {
    return 0;
  }
}

function preferAsVictim(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(VICTIM_SCORE));
  } catch {
    // Not Linux, ended already, or not allowed: then runner and program are equally likely.
  }
}
