// Which processes there are, and whether one of them is still the one we mean. A pid alone is no
// name: the system reuses it. Pid, start time and boot together are one.
//
// Reads are synchronous on purpose: /proc is memory of the kernel and answers in microseconds.

import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import {
  bootId,
  isSameProcess,
  type ProcessIdentity,
  type ProcStat,
  PS_ENVIRONMENT,
  parseProcStat,
  signalProcess,
} from "@exclave/machine/process-identity";

export { type ProcessIdentity, signalProcess };

export type ProcessEntry = ProcStat;

export interface ProcessTable {
  bootId(): string;
  find(pid: number): ProcessEntry | undefined;
  all(): ProcessEntry[];
  /** The processes there are, by number alone; cheap. */
  pids(): number[];
  /** The environment a process was started with; undefined where it is gone or not to be read. */
  environment(pid: number): string | undefined;
  /** How often the kernel has killed for want of memory since the machine started. */
  memoryKills(): number;
  /** Memory in use, pages shared between several of them counted in each. Cheap, never too low. */
  residentBytes(pids: readonly number[]): number;
  /** The same with shared pages split among their users, where the system knows. */
  proportionalBytes(pids: readonly number[]): number;
}

export function identify(table: ProcessTable, pid: number): ProcessIdentity | undefined {
  const entry = table.find(pid);
  return entry && { pid, startTime: entry.startTime, bootId: table.bootId() };
}

export function isAlive(table: ProcessTable, identity: ProcessIdentity): boolean {
  if (table.find(identity.pid)?.isZombie) return false;
  return isSameProcess(identity, identify(table, identity.pid));
}

/**
 * Everything that runs in the session this process leads or led. What called setsid has left it:
 * that is how a job leaves a long-running service behind, and the only way.
 */
export function sessionMembers(table: ProcessTable, leader: ProcessIdentity): ProcessEntry[] {
  if (leader.bootId !== table.bootId()) return [];
  const current = table.find(leader.pid);
  // The number belongs to somebody else now, which the system allows only once ours are all gone.
  if (current && current.startTime !== leader.startTime) return [];
  return table.all().filter((entry) => entry.session === leader.pid && !entry.isZombie);
}

/**
 * The same, asked again and again: what is known to be in another session is not looked at each time,
 * because it cannot come into this one. Numbers are used again, so that knowledge is dropped now and then.
 */
export function createSessionWatch(
  table: ProcessTable,
  leader: ProcessIdentity,
  now: () => number,
): () => ProcessEntry[] {
  const foreign = new Set<number>();
  let forgetAt = now() + FOREIGN_FOR_MS;
  return () => {
    if (now() >= forgetAt) {
      foreign.clear();
      forgetAt = now() + FOREIGN_FOR_MS;
    }
    return table.pids().flatMap((pid) => {
      if (foreign.has(pid)) return [];
      const entry = table.find(pid);
      if (entry && entry.session !== leader.pid) foreign.add(pid);
      return entry?.session === leader.pid && !entry.isZombie ? [entry] : [];
    });
  };
}

const FOREIGN_FOR_MS = 5_000;

/**
 * What carries this variable (`NAME=value`), in the session or out of it: every child inherits it
 * unless it is started with an environment of its own.
 */
export function markedProcesses(table: ProcessTable, variable: string): number[] {
  const mark = `\0${variable}\0`;
  return table
    .pids()
    .filter((pid) => pid !== process.pid && `\0${table.environment(pid) ?? ""}\0`.includes(mark));
}

/**
 * Asks a job to end, as a container engine does: its first process hears of it and tells the others.
 * Terraform's providers die of a SIGTERM that Terraform itself would have waited out.
 */
export function askToEnd(table: ProcessTable, leader: ProcessIdentity): void {
  const isThere = sessionMembers(table, leader).some(({ pid }) => pid === leader.pid);
  if (!isThere) return signalSession(table, leader, "SIGTERM");
  signalProcess(leader.pid, "SIGTERM");
}

/** Signals every process group of the session, so that a fork under way is met as well. */
export function signalSession(
  table: ProcessTable,
  leader: ProcessIdentity,
  signal: NodeJS.Signals,
): void {
  const groups = new Set(sessionMembers(table, leader).map(({ group }) => group));
  for (const group of groups) signalProcess(-group, signal);
}

/** Linux, where all of it is a file. */
export const procTable: ProcessTable = {
  bootId: () => bootId() ?? "",
  find: (pid) => parseProcStat(readText(`/proc/${pid}/stat`)),
  all: () =>
    readdirSync("/proc")
      .filter((name) => /^[0-9]+$/.test(name))
      .flatMap((pid) => parseProcStat(readText(`/proc/${pid}/stat`)) ?? []),
  pids: () =>
    readdirSync("/proc")
      .filter((name) => /^[0-9]+$/.test(name))
      .map(Number),
  environment: (pid) => readText(`/proc/${pid}/environ`),
  memoryKills: () => Number(/^oom_kill ([0-9]+)$/m.exec(readText("/proc/vmstat") ?? "")?.[1] ?? 0),
  residentBytes: (pids) => sum(pids, (pid) => kilobytes("VmRSS", readText(`/proc/${pid}/status`))),
  proportionalBytes: (pids) =>
    sum(
      pids,
      (pid) =>
        kilobytes("Pss", readText(`/proc/${pid}/smaps_rollup`)) ??
        kilobytes("VmRSS", readText(`/proc/${pid}/status`)),
    ),
};

/** Elsewhere: what `ps` says. It knows no boots and no sessions, so a group stands for a session. */
export const psTable: ProcessTable = {
  bootId: () => "",
  find: (pid) => ps(["-p", String(pid)])[0],
  all: () => ps(["-A"]),
  pids: () => ps(["-A"]).map(({ pid }) => pid),
  environment: () => undefined,
  memoryKills: () => 0,
  residentBytes: (pids) => sum(pids, (pid) => ps(["-p", String(pid)])[0]?.residentBytes),
  proportionalBytes: (pids) => psTable.residentBytes(pids),
};

export const processTable: ProcessTable = existsSync("/proc/self/stat") ? procTable : psTable;

interface PsEntry extends ProcessEntry {
  readonly residentBytes: number;
}

function ps(selection: readonly string[]): PsEntry[] {
  const columns = ["pid", "pgid", "state", "rss", "lstart"].flatMap((name) => ["-o", `${name}=`]);
  let text: string;
  try {
    text = execFileSync("ps", [...selection, ...columns], {
      encoding: "utf8",
      env: PS_ENVIRONMENT,
      stdio: ["ignore", "pipe", "ignore"],
    });
  } catch {
    // Exit status 1 is how ps says that there is none.
    return [];
  }
  return text.split("\n").flatMap((line) => parsePsLine(line) ?? []);
}

function parsePsLine(line: string): PsEntry | undefined {
  const match = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(\d+)\s+(.+?)\s*$/.exec(line);
  if (!match) return undefined;
  const [, pid, group, state, rss, startTime] = match;
  return {
    pid: Number(pid),
    group: Number(group),
    session: Number(group),
    startTime: startTime ?? "",
    isZombie: state?.startsWith("Z") ?? false,
    residentBytes: Number(rss) * 1024,
  };
}

/** Undefined is a process that ended between being listed and being looked at. */
function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function kilobytes(key: string, text: string | undefined): number | undefined {
  const match = text && new RegExp(`^${key}:\\s+([0-9]+) kB`, "m").exec(text);
  return match ? Number(match[1]) * 1024 : undefined;
}

function sum(pids: readonly number[], measure: (pid: number) => number | undefined): number {
  return pids.reduce((total, pid) => total + (measure(pid) ?? 0), 0);
}
