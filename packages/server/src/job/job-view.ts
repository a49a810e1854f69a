// A job as people see it.

import { type JobView, timeOf } from "@exclave/api";
import { isWithAgent } from "@exclave/core";
import type { ServerContext } from "../context.ts";
import type { JobRow } from "../store/rows.ts";

export async function viewJob(
  { store, logs, presence }: Pick<ServerContext, "store" | "logs" | "presence">,
  job: JobRow,
): Promise<JobView> {
  const isSilent = isWithAgent(job.state) && !presence.isOnline(job.audience);
  const agent = isSilent ? await store.read.agents.byAudience(job.audience) : undefined;
  return {
    id: job.id,
    operation: job.operation,
    install: job.installName ?? job.audience,
    installId: job.install,
    component: job.component,
    state: job.state.status,
    attempt: job.attempt,
    unreachableSince: timeOf(agent?.seenAt ?? null),
    release: job.release,
    because: job.because,
    requestedBy: job.requestedBy,
    createdAt: timeOf(job.createdAt),
    startedAt: timeOf(job.startedAt),
    endedAt: timeOf(job.endedAt),
    failure: job.failure,
    exitCode: job.exitCode,
    plan: job.plan,
    report: job.report,
    logBytes: await logBytesOf(logs, job),
    logComplete: job.logComplete,
    manifestDigest: job.manifestDigest,
  };
}

function logBytesOf(logs: ServerContext["logs"], job: JobRow): number | Promise<number> {
  // Nobody has it yet who could write one.
  if (job.state.status === "queued") return 0;
  if (job.logComplete && job.log) return job.log.bytes;
  // A store that is away for a while hides no job.
  return logs.sizeBytes(job.id, job.attempt).catch(() => job.log?.bytes ?? 0);
}
