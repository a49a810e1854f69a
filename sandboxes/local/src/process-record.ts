// Word of a process, kept in a file so that a later life of the supervisor finds it again.

import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import {
  claimForProcess,
  identifyProcess,
  isRunning,
  ProcessIdentity,
  signalProcess,
  writeDurably,
} from "@exclave/plugin-sdk";

/** The process on record, if exactly that one still runs; `key` where the record holds more. */
export async function runningProcess(
  path: string,
  key?: string,
): Promise<ProcessIdentity | undefined> {
  const recorded = await readProcess(path, key);
  return recorded && isRunning(recorded) ? recorded : undefined;
}

async function readProcess(path: string, key?: string): Promise<ProcessIdentity | undefined> {
  const text = await readFile(path, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    const record = JSON.parse(text);
    return ProcessIdentity.safeParse(key === undefined ? record : record[key]).data;
  } catch {
    return undefined;
  }
}

export async function recordProcess(path: string, pid: number): Promise<void> {
  const identity = identifyProcess(pid);
  if (identity) await writeDurably(path, JSON.stringify(identity));
}

/** Makes this process the one on record; false when another one already is, and lives. */
export async function becomeOnly(path: string): Promise<boolean> {
  for (;;) {
    const claimed = claimForProcess(path);
    if (claimed.kind !== "busy") return claimed.kind === "ours";
    await sleep(20);
  }
}

export interface StopOptions {
  readonly graceMs: number;
  /** Signals the process's whole group, which it should lead. */
  readonly isGroup?: boolean;
}

/** SIGTERM, after the grace SIGKILL. Returns once it is gone; false if it had to be killed. */
export async function stopProcess(
  identity: ProcessIdentity,
  { graceMs, isGroup = false }: StopOptions,
): Promise<boolean> {
  const send = (name: NodeJS.Signals) => {
    // One that leads no group after all is still not waited for without end.
    if (!isGroup || !signalProcess(-identity.pid, name)) signalProcess(identity.pid, name);
  };
  if (!isRunning(identity)) return true;
  send("SIGTERM");
  if (await ended(identity, graceMs)) return true;
  send("SIGKILL");
  await ended(identity, Number.POSITIVE_INFINITY);
  return false;
}

/** Waits for the end of a process that need not be a child of ours. */
export async function ended(identity: ProcessIdentity, withinMs: number): Promise<boolean> {
  const until = performance.now() + withinMs;
  while (isRunning(identity)) {
    if (performance.now() >= until) return false;
    await sleep(30);
  }
  return true;
}
