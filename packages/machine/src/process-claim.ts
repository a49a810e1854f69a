// One process at a time for a place, on record: whoever comes second is told who has it. The record of
// a process that was killed counts for nothing.

import { readFileSync, rmSync } from "node:fs";
import { createDurablySync } from "./durable-files-sync.ts";
import { lockFile } from "./file-lock.ts";
import { identifyProcess, isRunning, type ProcessIdentity } from "./process-identity.ts";

export type ProcessClaim =
  | { readonly kind: "ours"; readonly self: ProcessIdentity }
  | { readonly kind: "theirs"; readonly holder: ProcessIdentity }
  /** Another process is claiming it at this very moment. */
  | { readonly kind: "busy" };

export function claimForProcess(path: string): ProcessClaim {
  const self = identifyProcess(process.pid);
  if (!self) throw new Error("this process cannot find itself");
  // Two that find the same dead record must not both take it away: one would remove the other's.
  const lock = lockFile(`${path}.lock`);
  if (!lock) return { kind: "busy" };
  try {
    const holder = readHolder(path);
    if (isRunning(holder)) return { kind: "theirs", holder };
    rmSync(path, { force: true });
    if (!createDurablySync(path, JSON.stringify(self))) return { kind: "busy" };
    return { kind: "ours", self };
  } finally {
    lock.release();
  }
}

/** What the record says; undefined where there is none, or nothing that can be read. */
export function readHolder(path: string): ProcessIdentity | undefined {
  try {
    const read: Readonly<Record<string, unknown>> = JSON.parse(readFileSync(path, "utf8"));
    const { pid, startTime, bootId } = read;
    if (typeof pid !== "number" || typeof startTime !== "string") return undefined;
    const boot = typeof bootId === "string" ? { bootId } : {};
    return { pid, startTime, ...boot };
  } catch {
    return undefined;
  }
}
