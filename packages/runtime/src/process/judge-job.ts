// Whether a running job may go on. A plain decision: the keeper measures and acts.

import type { Limits } from "@exclave/core";

export interface Measured {
  readonly ranMs: number;
  readonly processes: number;
  readonly memoryBytes: number;
}

export interface Allowed {
  readonly deadlineMs: number;
  readonly limits: Limits;
}

export interface Verdict {
  readonly kind: "deadline" | "out-of-memory" | "too-many-processes";
  readonly because: string;
}

export function judgeJob(measured: Measured, { deadlineMs, limits }: Allowed): Verdict | undefined {
  const { memoryBytes, processesMax } = limits;

  if (memoryBytes !== undefined && measured.memoryBytes > memoryBytes) {
    const because = `it used ${measured.memoryBytes} bytes of memory and may use ${memoryBytes}`;
    return { kind: "out-of-memory", because };
  }
  if (processesMax !== undefined && measured.processes > processesMax) {
    const because = `it had ${measured.processes} processes and may have ${processesMax}`;
    return { kind: "too-many-processes", because };
  }
  if (measured.ranMs >= deadlineMs) {
    return { kind: "deadline", because: `it was still running after ${deadlineMs} ms` };
  }
  return undefined;
}
