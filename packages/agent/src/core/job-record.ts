import type { ManifestStep } from "@exclave/core";
import type { JobRecord } from "../journal/journal.ts";

/** The step a job runs: jobs of several steps are refused when they are offered. */
export function stepOf({ manifest }: JobRecord): ManifestStep {
  const [step] = manifest.steps;
  if (!step) throw new TypeError(`${manifest.id} has no step`);
  return step;
}

/** Whether it may change its component, or lock it: one of these at a time. */
export function isChanging({ manifest }: JobRecord): boolean {
  return ["plan", "apply", "destroy"].includes(manifest.operation);
}
