// What a job did, as values: the resources it touched and how far it said it was. Bounded, because
// it travels with the job's end and is kept with it: the log has every line.

import { z } from "zod";
import { type JobLine, ResourceLine } from "./job-line.ts";

export const CHANGES_MAX = 100;
const TEXT_MAX = 200;

export const JobReport = z.object({
  /** How many resources, by what was done to them. */
  resources: z.partialRecord(ResourceLine.shape.action, z.int().positive()),
  /** The first of those that were not only read. */
  changes: z
    .array(ResourceLine.omit({ type: true }))
    .max(CHANGES_MAX)
    .default([]),
  /** The last thing it said of how far it is. */
  progress: z
    .object({ message: z.string(), done: z.number().optional(), total: z.number().optional() })
    .nullable()
    .default(null),
});
export type JobReport = z.infer<typeof JobReport>;

export interface ReportCollector {
  add(line: JobLine): void;
  /** Undefined when the job said nothing of the kind. */
  report(): JobReport | undefined;
}

export function createReport(redact: (text: string) => string): ReportCollector {
  const resources: JobReport["resources"] = {};
  const changes: JobReport["changes"] = [];
  let progress: JobReport["progress"] = null;

  return {
    add(line) {
      if (line.type === "progress") {
        const { type: _, message, ...rest } = line;
        progress = { message: short(message), ...rest };
      }
      if (line.type !== "resource") return;
      const { action, kind, name } = line;
      resources[action] = (resources[action] ?? 0) + 1;
      if (action === "read" || changes.length >= CHANGES_MAX) return;
      changes.push({ action, kind: short(kind), name: short(name) });
    },
    report() {
      const isEmpty = progress === null && Object.keys(resources).length === 0;
      return isEmpty ? undefined : { resources, changes, progress };
    },
  };

  function short(text: string): string {
    return redact(text).slice(0, TEXT_MAX);
  }
}

/** `2 created, 1 destroyed`; empty when nothing was touched. */
export function resourcesText({ resources }: Pick<JobReport, "resources">): string {
  return Object.entries(resources)
    .map(([action, count]) => `${count} ${action}`)
    .join(", ");
}
