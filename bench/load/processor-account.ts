// Processor time of processes and of all they start, also of those that are over: by a control group of the kernel.

import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface ProcessorAccount {
  /** From now on this process and its children are counted. */
  add(pid: number): void;
  spentMs(): number;
  /** Nothing is counted any more; whoever still runs goes back to where it came from. */
  close(): void;
}

const ROOTS = [
  {
    root: "/sys/fs/cgroup/cpuacct",
    file: "cpuacct.usage",
    read: (text: string) => Number(text) / 1e6,
  },
  {
    root: "/sys/fs/cgroup",
    file: "cpu.stat",
    read: (text: string) => Number(/^usage_usec (\d+)/m.exec(text)?.[1] ?? "0") / 1e3,
  },
];

/** Undefined where the kernel offers none to this user. */
export function openAccount(): ProcessorAccount | undefined {
  for (const { root, file, read } of ROOTS) {
    const group = join(root, `exclave-bench-${process.pid}`);
    try {
      mkdirSync(group);
    } catch {
      continue;
    }
    if (!existsSync(join(group, file))) {
      rmdirSync(group);
      continue;
    }
    const move = (to: string, pid: string | number) => {
      try {
        writeFileSync(join(to, "cgroup.procs"), String(pid));
      } catch {
        // It ended before it was moved.
      }
    };
    return {
      add: (pid) => move(group, pid),
      spentMs: () => read(readFileSync(join(group, file), "utf8")),
      close() {
        const left = readFileSync(join(group, "cgroup.procs"), "utf8").split("\n").filter(Boolean);
        for (const pid of left) move(root, pid);
        rmdirSync(group);
      },
    };
  }
  return undefined;
}
