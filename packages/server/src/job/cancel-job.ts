// Asks a job to stop. What no agent has heard of ends at once, as a failure of what it was about:
// otherwise the loop would only make it anew. Everything else only its agent can end.

import { advanceJob, Failure, isSettled, mayBeHeard } from "@exclave/core";
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
    const heard = await mayHaveHeard(tx, context, before);
    const asked = { type: "cancel_requested", at: context.now(), mayBeHeard: heard } as const;
    const next = advanceJob(state, asked);
    // Somebody asked before.
    if (!next) return before;
    await audit(tx, context, {
      actor: by,
      action: "job.cancel_requested",
      subject: before.id,
      details: { state: state.status, graceMs },
    });
    const after: JobRow = { ...before, state: next };
    const because = `${by} asked for it to stop`;
    const isOver = isSettled(next);
    const ended = isOver ? await endUnheard(tx, context, after, because) : after;
    if (!isOver || heard) {
      const cancel = { type: "job_cancel", job: before.id, attempt, graceMs } as const;
      await tx.outbox.add(audience, { ...cancel, requestedBy: by, because });
    }
    if (!isOver) await tx.jobs.put(ended);
    return ended;
  });
  context.wake.outbox(job.audience);
  context.wake.releases();
  if (job.install !== null) context.wake.install(job.install);
  return job;
}

/** Whether its agent may know of a job that is queued here. */
export async function mayHaveHeard(
  tx: Tables,
  { startedAt }: Pick<ServerContext, "startedAt">,
  { audience, state }: JobRow,
): Promise<boolean> {
  if (state.status !== "queued") return false;
  const agent = await tx.agents.byAudience(audience);
  const agentSeenAt = agent?.everConnected ? agent.seenAt : undefined;
  return mayBeHeard({ queuedAt: state.since, agentSeenAt, serverStartedAt: startedAt });
}

export async function endUnheard(
  tx: Tables,
  { now }: Pick<ServerContext, "now">,
  before: JobRow,
  message: string,
): Promise<JobRow> {
  const failure = { code: "cancelled" as const, message };
  const isKnown = before.state.status === "cancelled";
  const job: JobRow = { ...before, endedAt: now(), failure, logComplete: isKnown };
  const install = job.install === null ? undefined : await tx.installs.get(job.install);
  const component =
    install && job.component !== null
      ? await tx.components.get(componentKey(install.id, job.component))
      : undefined;
  await tx.outbox.withdraw(job.id);
  const effect = consequences({ now: now(), install, component }, job, {
    ...failure,
    mayRepeat: isKnown || job.effect !== "at-most-once",
  });
  await writeAll(tx, { jobs: [job], components: [], images: [], audit: [], wake: {}, ...effect });
  return job;
}
