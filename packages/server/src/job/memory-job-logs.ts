// Job logs in memory: for the simulation, where they outlive the server's crash.

import { createHash } from "node:crypto";
import { EventEmitter } from "node:events";
import { Failure, jobName } from "@exclave/core";
import { type JobLogs, LOG_BYTES_MAX, nextGrowth } from "./job-logs.ts";

export interface MemoryLog {
  readonly kept: Uint8Array;
  /** With what was left out. */
  readonly sizeBytes: number;
}

export function createMemoryJobLogs({
  logBytesMax = LOG_BYTES_MAX,
  files = new Map<string, MemoryLog>(),
}: {
  readonly logBytesMax?: number;
  readonly files?: Map<string, MemoryLog>;
} = {}): JobLogs {
  const emitter = new EventEmitter().setMaxListeners(0);
  const of = (job: string, attempt: number): MemoryLog =>
    files.get(jobName(job, attempt)) ?? { kept: new Uint8Array(), sizeBytes: 0 };

  return {
    sizeBytes: async (job, attempt) => of(job, attempt).sizeBytes,
    async append(job, attempt, offset, bytes) {
      const { kept, sizeBytes } = of(job, attempt);
      if (sizeBytes !== offset) {
        throw new Failure("conflict", `the log of ${job} ends at ${sizeBytes}, not at ${offset}`);
      }
      const rest = bytes.subarray(0, Math.max(0, logBytesMax - offset));
      files.set(jobName(job, attempt), {
        kept: Buffer.concat([kept, rest]),
        sizeBytes: offset + bytes.length,
      });
      emitter.emit(jobName(job, attempt));
    },
    async *read(job, attempt, from) {
      const rest = of(job, attempt).kept.subarray(from);
      if (rest.length > 0) yield rest;
    },
    sha256: async (job, attempt) =>
      createHash("sha256").update(of(job, attempt).kept).digest("hex"),
    leftOutBytes: (sizeBytes) => Math.max(0, sizeBytes - logBytesMax),
    remove: async (job, attempt) => void files.delete(jobName(job, attempt)),
    grown: (job, attempt, signal) => nextGrowth(emitter, jobName(job, attempt), signal),
    seal: () => undefined,
    close: async () => undefined,
  };
}
