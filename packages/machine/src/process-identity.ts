// Who a process is, beyond its number: numbers are used again, also after a restart of the machine, so
// a record of a process keeps when it started and in which life of the machine.
//
// Reads are synchronous on purpose: /proc is memory of the kernel and answers in microseconds. Node
// alone is used here: a supervisor is one more process for every service, and stays small.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

export interface ProcessIdentity {
  readonly pid: number;
  /** Opaque: ticks since the boot on Linux, a date elsewhere. Only equality means something. */
  readonly startTime: string;
  /** Absent where the system knows no boots. */
  readonly bootId?: string | undefined;
}

/** The process that has this number now; undefined when none does, or only one that has ended. */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const startTime = startTimeOf(pid);
  if (startTime === undefined) return undefined;
  const boot = bootId();
  return { pid, startTime, ...(boot !== undefined && { bootId: boot }) };
}

/** Whether exactly this process is still at work; a zombie is not. */
export function isRunning(known: ProcessIdentity): boolean;
export function isRunning(known: ProcessIdentity | undefined): known is ProcessIdentity;
export function isRunning(known: ProcessIdentity | undefined): boolean {
  return known !== undefined && isSameProcess(known, identifyProcess(known.pid));
}

/** A record from before boots were kept is believed. */
export function isSameProcess(known: ProcessIdentity, now: ProcessIdentity | undefined): boolean {
  if (!now || now.pid !== known.pid || now.startTime !== known.startTime) return false;
  return known.bootId === undefined || known.bootId === now.bootId;
}

/** To a group if the number is negative. False when there is nobody to signal. */
export function signalProcess(target: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(target, signal);
  } catch (reason) {
    if ((reason as NodeJS.ErrnoException).code !== "ESRCH") throw reason;
    return false;
  }
}

export interface ProcStat {
  readonly pid: number;
  readonly group: number;
  readonly session: number;
  readonly startTime: string;
  /** Ended, and only waiting for its parent to take notice. */
  readonly isZombie: boolean;
}

/** proc(5): the name in parentheses may hold anything, so fields are counted after its end. */
export function parseProcStat(text: string | undefined): ProcStat | undefined {
  if (text === undefined) return undefined;
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state, , group, session] = fields;
  const startTime = fields[19];
  if (startTime === undefined) return undefined;
  return {
    pid: Number.parseInt(text, 10),
    group: Number(group),
    session: Number(session),
    startTime,
    isZombie: state === "Z" || state === "X",
  };
}

/** Asked once: this process does not live through a boot. */
let knownBootId: string | undefined;

/** The machine's present life; undefined where the system does not say. */
export function bootId(): string | undefined {
  knownBootId ??= readText("/proc/sys/kernel/random/boot_id")?.trim();
  return knownBootId;
}

/** `ps` in one language and one time zone, whoever asks: its dates are compared. */
export const PS_ENVIRONMENT = { PATH: "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" };

function startTimeOf(pid: number): string | undefined {
  if (process.platform !== "linux") return startDateOf(pid);
  const stat = parseProcStat(readText(`/proc/${pid}/stat`));
  return stat?.isZombie === false ? stat.startTime : undefined;
}

function startDateOf(pid: number): string | undefined {
  try {
    const args = ["-o", "lstart=", "-p", String(pid)];
    const text = execFileSync("ps", args, {
      encoding: "utf8",
      env: PS_ENVIRONMENT,
      stdio: ["ignore", "pipe", "ignore"],
    });
    return text.trim() || undefined;
  } catch {
    // Exit status 1 is how ps says that there is none.
    return undefined;
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
