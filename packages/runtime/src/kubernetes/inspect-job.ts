// What is known of a job, from the cluster and from what was written down. An end is written down when it is first
// seen, so that every later look says the same, also when the cluster has forgotten.

import type { JobName } from "@exclave/core";
import type { JobRun } from "../job-runtime.ts";
import { jobRunOf, type KubeJob, type KubePod } from "./job-run.ts";
import { findJob, findPod, type KubePlace, readRecord, writeRecord } from "./kube-place.ts";

export interface Look {
  readonly run: JobRun;
  readonly job: KubeJob | undefined;
  readonly pod: KubePod | undefined;
}

export async function look(place: KubePlace, name: JobName): Promise<Look> {
  // The Job first: a pod that was there before it is gone is not missed.
  const job = await findJob(place, name);
  const pod = await findPod(place, name);
  const end = await readRecord(place, name, "end");
  const sent = await readRecord(place, name, "sent");
  const run = jobRunOf({ job, pod, end, isSent: sent?.phase === "sent" });
  if (run.kind === "exited" && !end) await writeRecord(place, name, "end", run.exit);
  return { run, job, pod };
}

export async function isOver(place: KubePlace, name: JobName): Promise<boolean> {
  const { kind } = (await look(place, name)).run;
  return kind === "exited" || kind === "absent";
}
