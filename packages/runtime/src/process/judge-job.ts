// Whether a running job may go on, and how one that is over has ended. Plain decisions: the keeper measures and acts.

import type { Limits } from "@exclave/core";
import type { JobExit } from "../job-runtime.ts";

export interface Measured {
  readonly ranMs: number;
  readonly processes: number;
  readonly memoryBytes: number;
  /** What it has printed, however much of that anybody reads. */
  readonly outputBytes: number;
  /** In its own directory. */
  readonly diskBytes: number;
}

export interface Allowed {
  readonly deadlineMs: number;
  readonly limits: Limits;
}

export interface Verdict {
  readonly kind: "deadline" | "out-of-memory" | "over-limit";
  readonly because: string;
}

/** Beyond the log: outputs, artifacts, and the envelope of each line. The runner stays within it. */
const OUTPUT_ALLOWANCE_BYTES = 64 * 1024 * 1024;

export function judgeJob(measured: Measured, { deadlineMs, limits }: Allowed): Verdict | undefined {
  const { memoryBytes, processesMax, logBytesMax, diskBytesMax } = limits;

  if (memoryBytes !== undefined && measured.memoryBytes > memoryBytes) {
    const because = `it used ${measured.memoryBytes} bytes of memory and may use ${memoryBytes}`;
    return { kind: "out-of-memory", because };
  }
  if (processesMax !== undefined && measured.processes > processesMax) {
    const because = `it had ${measured.processes} processes and may have ${processesMax}`;
    return { kind: "over-limit", because };
  }
  if (logBytesMax !== undefined && measured.outputBytes > logBytesMax + OUTPUT_ALLOWANCE_BYTES) {
    const because = `it printed ${measured.outputBytes} bytes, with a log of ${logBytesMax} at most`;
    return { kind: "over-limit", because };
  }
  if (diskBytesMax !== undefined && measured.diskBytes > diskBytesMax) {
    const because = `its directory has ${measured.diskBytes} bytes and may have ${diskBytesMax}`;
    return { kind: "over-limit", because };
  }
  if (measured.ranMs >= deadlineMs) {
    return { kind: "deadline", because: `it was still running after ${deadlineMs} ms` };
  }
  return undefined;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Killed while the kernel killed for want of memory: that it was this one, nobody can say for sure. */
export function exitOf(
  { code, signal }: Ended,
  { verdict, memoryKills }: { readonly verdict: Verdict | undefined; readonly memoryKills: number },
): JobExit {
  if (verdict?.kind === "deadline") return { kind: "deadline" };
  if (verdict?.kind === "over-limit") return { kind: "over-limit", because: verdict.because };
  const isByKernel = signal === "SIGKILL" && memoryKills > 0;
  if (verdict?.kind === "out-of-memory" || isByKernel) return { kind: "out-of-memory" };
  return signal ? { kind: "signal", signal } : { kind: "code", code: code ?? 1 };
}
