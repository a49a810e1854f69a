// Processes of a job that left its session. A job may leave a long-running service behind, and says so
// by leaving word of it in the run directory or by starting it with an environment of its own; what does
// neither was meant to escape, and ends with the job.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type JobDirectory, readOrder } from "./job-directory.ts";
import { markedProcesses, processTable } from "./process-table.ts";

export function straysOf(job: JobDirectory): number[] {
  const order = readOrder(job);
  if (!order) return [];
  const marked = markedProcesses(processTable, order.mark);
  if (marked.length === 0) return marked;
  const left = servicesIn(order.runDirectory);
  return marked.filter((pid) => !left.has(pid));
}

/** Which processes jobs have left word of. */
function servicesIn(directory: string): Set<number> {
  try {
    const files = readdirSync(directory).filter((name) => name.endsWith(".json"));
    return new Set(files.flatMap((name) => pidIn(join(directory, name)) ?? []));
  } catch {
    return new Set();
  }
}

function pidIn(path: string): number | undefined {
  try {
    const { pid } = JSON.parse(readFileSync(path, "utf8"));
    return typeof pid === "number" ? pid : undefined;
  } catch {
    return undefined;
  }
}
