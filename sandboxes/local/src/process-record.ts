// Word of a process, kept in a file so that a later life of the supervisor finds it again.

import { link, readFile, rm, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { identifyProcess, isRunning, ProcessIdentity } from "@exclave/plugin-sdk";
import { writeWhole } from "./files.ts";

/** The process on record, if exactly that one still runs; `key` where the record holds more. */
export async function runningProcess(
  path: string,
  key?: string,
): Promise<ProcessIdentity | undefined> {
  const recorded = await readProcess(path, key);
  return recorded && (await isRunning(recorded)) ? recorded : undefined;
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
  const identity = await identifyProcess(pid);
  if (identity) await writeWhole(path, JSON.stringify(identity));
}

/** Makes this process the one on record; false when another one already is, and lives. */
export async function becomeOnly(path: string): Promise<boolean> {
  const self = await identifyProcess(process.pid);
  const draft = `${path}.${process.pid}.draft`;
  await writeFile(draft, JSON.stringify(self), { mode: 0o600 });
  try {
    for (;;) {
      try {
        await link(draft, path);
        return true;
      } catch (reason) {
        if ((reason as NodeJS.ErrnoException).code !== "EEXIST") throw reason;
      }
      if (await runningProcess(path)) return false;
      await rm(path, { force: true });
    }
  } finally {
    await rm(draft, { force: true });
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
    if (!isGroup || !signal(-identity.pid, name)) signal(identity.pid, name);
  };
  if (!(await isRunning(identity))) return true;
  send("SIGTERM");
  if (await ended(identity, graceMs)) return true;
  send("SIGKILL");
  await ended(identity, Number.POSITIVE_INFINITY);
  return false;
}

/** Waits for the end of a process that need not be a child of ours. */
export async function ended(identity: ProcessIdentity, withinMs: number): Promise<boolean> {
  const until = performance.now() + withinMs;
  while (await isRunning(identity)) {
    if (performance.now() >= until) return false;
    await sleep(30);
  }
  return true;
}

/** False when there is nobody to signal. */
export function signal(target: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(target, name);
  } catch (reason) {
    if ((reason as NodeJS.ErrnoException).code !== "ESRCH") throw reason;
    return false;
  }
}
