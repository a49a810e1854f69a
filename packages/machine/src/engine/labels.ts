// By what an engine's things are known to be ours: whose, and which job's.

import type { JobName } from "@exclave/core";

export const LABELS = {
  owner: "dev.exclave.owner",
  job: "dev.exclave.job",
  jobClass: "dev.exclave.class",
  state: "dev.exclave.state",
  /** Whose long-running container it is. */
  component: "dev.exclave.component",
  /** A part of the sandbox itself: which. */
  system: "dev.exclave.system",
  deadlineMs: "dev.exclave.deadline-ms",
  logBytesMax: "dev.exclave.log-bytes-max",
  /** How many processes the machine's kernel had killed for want of memory when the job began. */
  memoryKills: "dev.exclave.memory-kills",
  /** What the job's output begins with. */
  notes: "dev.exclave.notes",
} as const;

export type Labels = Readonly<Record<string, string>>;

export function jobLabels(owner: string, job: JobName): Labels {
  return { [LABELS.owner]: owner, [LABELS.job]: job };
}

export function stateLabels(owner: string, volume: string): Labels {
  return { [LABELS.owner]: owner, [LABELS.state]: volume };
}

/** A filter for everything of one owner. */
export function ownedBy(owner: string): string {
  return JSON.stringify({ label: [`${LABELS.owner}=${owner}`] });
}

/** Under which an owner's images are tagged; nothing is ever pulled from there. */
export function imageRepository(owner: string): string {
  return `exclave.invalid/${owner}`;
}
