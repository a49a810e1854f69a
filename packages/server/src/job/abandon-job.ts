// Ends a job whose agent will say nothing of it any more: how it ended, nobody can know.

import { advanceJob } from "@exclave/core";
import type { ServerContext } from "../context.ts";
import type { JobRow } from "../store/rows.ts";
import type { Tables } from "../store/store.ts";

export async function abandonJob(
  tx: Tables,
  { now }: Pick<ServerContext, "now">,
  job: JobRow,
  because: string,
): Promise<void> {
  const state = advanceJob(job.state, { type: "abandon", at: now(), because });
  if (!state) return;
  await tx.outbox.withdraw(job.id);
  await tx.jobs.put({ ...job, state, endedAt: now() });
}
