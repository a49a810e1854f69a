import type { Digest, Manifest, ManifestStep } from "@exclave/core";
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

/** Whether it only looks: a log, a debug command or a status that somebody asked for. */
export function isDebug({ manifest }: JobRecord): boolean {
  return ["logs", "exec", "status"].includes(manifest.operation);
}

/** Which install a job is about: the agent's own, or the one whose sandbox a setup agent is at. */
export function installOf({ audience, install }: Manifest): string {
  return audience === "setup" ? (install?.id ?? "") : audience;
}

/** The index of the release that a component's job is of. */
export function releaseOf(record: JobRecord): Digest | undefined {
  return stepOf(record).releases?.[0]?.digest;
}
