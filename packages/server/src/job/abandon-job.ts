// Ends a job whose agent will say nothing of it any more: how it ended, nobody can know.

import { advanceJob } from "@exclave/core";
import type { ServerContext } from "../context.ts";
import type { JobRow } from "../store/rows.ts";
import type { Tables } from "../store/store.ts";
import { mayHaveHeard } from "./cancel-job.ts";

export async function abandonJob(
  tx: Tables,
  context: Pick<ServerContext, "now" | "startedAt">,
  job: JobRow,
  because: string,
): Promise<void> {
  const { now } = context;
  const heard = await mayHaveHeard(tx, context, job);
  const state = advanceJob(job.state, { type: "abandon", at: now(), because, mayBeHeard: heard });
  if (!state) return;
  await tx.outbox.withdraw(job.id);
  await tx.jobs.put({ ...job, state, endedAt: now() });
}
