// Which process is meant. A pid alone is not enough: after it has ended, or after the machine was
// restarted, the number belongs to somebody else. Node alone is used here: the supervisor is one
// more process for every service, and stays small by importing nothing else.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

export interface ProcessIdentity {
  readonly pid: number;
  readonly startTime: string;
  readonly bootId: string;
}

export function identify(pid: number): ProcessIdentity | undefined {
  const startTime = startTimeOf(pid);
  return startTime === undefined ? undefined : { pid, startTime, bootId: bootId() };
}

export function isAlive(identity: ProcessIdentity | undefined): identity is ProcessIdentity {
  if (!identity || identity.bootId !== bootId()) return false;
  return startTimeOf(identity.pid) === identity.startTime;
}

/** To every process of the group it leads; to nobody if it is gone. */
export function signalGroup(identity: ProcessIdentity | undefined, signal: NodeJS.Signals): void {
  if (isAlive(identity)) sendSignal(-identity.pid, signal);
}

export function sendSignal(target: number, signal: NodeJS.Signals): void {
  try {
    process.kill(target, signal);
  } catch (reason) {
    if ((reason as NodeJS.ErrnoException).code !== "ESRCH") throw reason;
  }
}

/** Undefined where nothing runs under this number; a process that only waits to be buried is gone. */
function startTimeOf(pid: number): string | undefined {
  try {
    if (process.platform !== "linux") {
      return execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" }).trim();
    }
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

let knownBootId: string | undefined;

function bootId(): string {
  try {
    knownBootId ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    knownBootId = "unknown";
  }
  return knownBootId;
}
