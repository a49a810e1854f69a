// Who a process is, beyond its number: numbers are used again, also after a restart of the machine,
// so a record of a process keeps when it started and in which life of the machine.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { z } from "zod";

export const ProcessIdentity = z.object({
  pid: z.int().positive(),
  /** Opaque: ticks since the boot on Linux, a date elsewhere. Only equality means something. */
  startTime: z.coerce.string(),
  bootId: z.string().optional(),
});
export type ProcessIdentity = z.infer<typeof ProcessIdentity>;

/** The process that has this number now; undefined when none does. */
export async function identifyProcess(pid: number): Promise<ProcessIdentity | undefined> {
  const startTime = await startTimeOf(pid);
  if (startTime === undefined) return undefined;
  const bootId = await currentBootId();
  return { pid, startTime, ...(bootId !== undefined && { bootId }) };
}

/** Whether exactly this process is still at work; a zombie is not. */
export async function isRunning(known: ProcessIdentity): Promise<boolean> {
  const now = await identifyProcess(known.pid);
  if (!now || now.startTime !== known.startTime) return false;
  return known.bootId === undefined || known.bootId === now.bootId;
}

async function startTimeOf(pid: number): Promise<string | undefined> {
  if (process.platform !== "linux") return startDateOf(pid);
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  if (stat === undefined) return undefined;
  // The program's name, in parentheses, may hold anything; fields are counted from behind it.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
}

async function startDateOf(pid: number): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)("ps", ["-o", "lstart=", "-p", String(pid)]);
    return stdout.trim() || undefined;
  } catch {
    return undefined;
  }
}

async function currentBootId(): Promise<string | undefined> {
  const text = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => undefined);
  return text?.trim();
}
