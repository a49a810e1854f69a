// Asks a job to stop. What no agent has heard of ends at once, as a failure of what it was about:
// otherwise the loop would only make it anew. Everything else only its agent can end.

import { advanceJob, Failure, isSettled } from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import { consequences } from "../link/job-consequences.ts";
import { writeAll } from "../link/write-agent-event.ts";
import type { JobRow } from "../store/rows.ts";
import { componentKey, type Tables } from "../store/store.ts";

export async function cancelJob(
  context: ServerContext,
  { id, graceMs, by }: { readonly id: string; readonly graceMs: number; readonly by: string },
): Promise<JobRow> {
  const job = await context.store.transaction(async (tx) => {
    const before = await tx.jobs.get(id);
    if (!before) throw new Failure("not_found", `there is no job ${id}`);
    const { state, attempt, audience } = before;
    if (isSettled(state)) {
      throw new Failure("conflict", `${before.id} has ended already (${state.status})`);
    }
    const next = advanceJob(state, { type: "cancel_requested", at: context.now() });
    // Somebody asked before.
    if (!next) return before;
    await audit(tx, context, {
      actor: by,
      action: "job.cancel_requested",
      subject: before.id,
      details: { state: state.status, graceMs },
    });
    const after: JobRow = { ...before, state: next };
    if (isSettled(next)) return endUnheard(tx, context, after, `${by} asked for it to stop`);
    await tx.outbox.add(audience, {
      type: "job_cancel",
      job: before.id,
      attempt,
      graceMs,
      requestedBy: by,
      because: `${by} asked for it to stop`,
    });
    await tx.jobs.put(after);
    return after;
  });
  context.wake.outbox(job.audience);
  context.wake.releases();
  if (job.install !== null) context.wake.install(job.install);
  return job;
}

export async function endUnheard(
  tx: Tables,
  { now }: Pick<ServerContext, "now">,
  before: JobRow,
  message: string,
): Promise<JobRow> {
  const failure = { code: "cancelled" as const, message };
  const job: JobRow = { ...before, endedAt: now(), failure, logComplete: true };
  const install = job.install === null ? undefined : await tx.installs.get(job.install);
  const component =
    install && job.component !== null
      ? await tx.components.get(componentKey(install.id, job.component))
      : undefined;
  await tx.outbox.withdraw(job.id);
  const effect = consequences({ now: now(), install, component }, job, {
    ...failure,
    mayRepeat: true,
  });
  await writeAll(tx, { jobs: [job], components: [], images: [], audit: [], wake: {}, ...effect });
  return job;
}
