// The programs of this machine that run out of a home, and how one of them is ended.

import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { isRunning, type ProcessIdentity, signalProcess } from "@exclave/machine";

export interface RunningProgram {
  readonly pid: number;
  readonly argv: readonly string[];
}

/** SIGTERM, and SIGKILL after the grace or when `hurry` fires; returns once it is gone. */
export async function endProcess(
  found: ProcessIdentity,
  { graceMs, hurry }: { readonly graceMs: number; readonly hurry: AbortSignal },
): Promise<void> {
  if (!isRunning(found)) return;
  signalProcess(found.pid, "SIGTERM");
  const endsAt = Date.now() + graceMs;
  while (Date.now() < endsAt && !hurry.aborted) {
    if (!isRunning(found)) return;
    await sleep(50);
  }
  if (!isRunning(found)) return;
  signalProcess(found.pid, "SIGKILL");
  for (let tries = 0; tries < 100 && isRunning(found); tries++) await sleep(50);
}

/**
 * Programs that run out of `home` or on a directory of it: agents' keepers, jobs, services. An
 * editor that has a file of ours open is none of them: what counts is what node or a program of
 * ours was started with.
 */
export async function programsOf(home: string): Promise<RunningProgram[]> {
  const programs = process.platform === "linux" ? await linuxPrograms() : await psPrograms();
  return programs.filter(({ pid, argv }) => pid !== process.pid && isOurs(argv, home));
}

export function isOurs(argv: readonly string[], home: string): boolean {
  const [program = ""] = argv;
  const below = (path: string) => path.startsWith(`${home}/`);
  if (below(program)) return true;
  const isRunner = basename(program) === "node" || basename(program) === "sh";
  return isRunner && argv.some(below);
}

async function linuxPrograms(): Promise<RunningProgram[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const programs = await Promise.all(
    pids.map(async (pid) => {
      const text = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
      return { pid: Number(pid), argv: text.split("\0").slice(0, -1) };
    }),
  );
  return programs.filter(({ argv }) => argv.length > 0);
}

async function psPrograms(): Promise<RunningProgram[]> {
  const lines = (await ps(["-axww", "-o", "pid=,command="])).split("\n");
  return lines.flatMap((line) => {
    const [pid, ...argv] = line.trim().split(/\s+/);
    return pid ? [{ pid: Number(pid), argv }] : [];
  });
}

async function ps(args: readonly string[]): Promise<string> {
  try {
    return (await promisify(execFile)("ps", [...args])).stdout;
  } catch {
    return "";
  }
}
