// A wish that a job should stop: only the director's counts, once, and with the grace its operation needs.

import { graceFor, type JobId, type JobName, jobName } from "@exclave/core";
import { CANCELLED, endJob, NOTHING_SAID } from "./agent-job-end.ts";
import type { CancelCommand } from "./agent-state.ts";
import { act, journal, record as recordEvent, setJob, type Turn } from "./turn.ts";

export function handleCancel(turn: Turn, command: CancelCommand): void {
  const { job: id, attempt } = command;
  const { now, rules, state } = turn;
  const judged = rules.judgeCancel(command, { now, trust: state.trust });
  if (judged.kind === "refused") return refuseCancel(turn, command, judged.code, judged.because);

  const name = jobName(id, attempt);
  const job = state.jobs.get(name);
  if (!job) return cancelUnknown(turn, id, attempt, name);
  const { issuedAt: cancelIssuedAt, graceMs: askedMs } = judged.cancel;
  if (job.record.cancelIssuedAt === cancelIssuedAt) {
    return refuseCancel(turn, command, "replayed", "this very cancel came before");
  }
  // It ended before the wish arrived, or it was asked to stop already.
  if (job.phase === "ended" || job.record.cancelGraceMs !== undefined) return;

  const graceMs = graceFor(job.record.manifest.operation, askedMs);
  const record = { ...job.record, cancelGraceMs: graceMs, cancelIssuedAt };
  journal(turn, { kind: "job", record });
  setJob(turn, { ...job, record });
  if (job.phase === "ready") {
    endJob(turn, { ...job, record }, CANCELLED);
  }
  // A launch under way is stopped as soon as it is known to have happened.
  if (job.phase === "running") act(turn, { kind: "stop", name, graceMs });
}

/** The job goes on, and it is on record who tried what. */
function refuseCancel(turn: Turn, cancel: CancelCommand, code: string, why: string): void {
  const because = `a cancel of attempt ${cancel.attempt} of ${cancel.job} was refused: ${why}`;
  act(turn, { kind: "note", level: "warn", text: because });
  recordEvent(turn, { type: "alarm", at: turn.now, code: `cancel_${code}`, because });
}

/** One that ended long ago, which the server then knows, or one that a lost journal had. */
function cancelUnknown(turn: Turn, job: JobId, attempt: number, name: JobName): void {
  const because = "this agent has no record of it; whatever was left of it was removed";
  const outcome = { kind: "unknown", because } as const;
  const ended = { job, attempt, outcome, outputs: [], artifacts: [], ...NOTHING_SAID };
  recordEvent(turn, { type: "job_ended", at: turn.now, ...ended });
  act(turn, { kind: "remove", name });
}
