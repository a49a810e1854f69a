// The life of an accepted job in the agent: when it may be launched, and what to do about one whose
// launch a crash left open.

import type { Grant } from "@exclave/api";
import type { JobName } from "@exclave/core";
import type { JobRun } from "@exclave/runtime";
import type { JobRecord } from "../journal/journal.ts";
import { CANCELLED, endJob, failedEnd, openEnd } from "./agent-job-end.ts";
import { foreignOrigin, refuseOrigin } from "./agent-origins.ts";
import { keepApplied } from "./agent-schedule.ts";
import type { AgentJob, EndedJob, NotLaunched } from "./agent-state.ts";
import { installOf, isChanging, isDebug, stepOf } from "./job-record.ts";
import {
  act,
  journal,
  record as recordEvent,
  send,
  setJob,
  setScheduled,
  type Turn,
} from "./turn.ts";

const STATUS_STOP_MS = 2_000;
/** Whether the job reads or writes the vendor's registry, for which only the server gives access. */
export function needsGrant(turn: Turn, record: JobRecord): boolean {
  return turn.rules.kind !== "install" || record.manifest.operation === "sync";
}

export function startReadyJobs(turn: Turn): void {
  for (const job of turn.state.jobs.values()) {
    if (job.phase !== "ready") continue;
    if (turn.now > job.record.manifest.notAfter) {
      const message = "its time was over before it could be launched";
      endJob(turn, job, failedEnd("expired", message));
      continue;
    }
    if (isFull(turn, job) || isComponentChanging(turn, job) || isComponentBusy(turn, job)) continue;
    if (needsGrant(turn, job.record)) askGrant(turn, job);
    else launch(turn, job);
  }
}

export function handleGrant(
  turn: Turn,
  name: JobName,
  grant: Grant | undefined,
  refused: string | undefined,
): void {
  const job = turn.state.jobs.get(name);
  // A grant that nobody waits for any more, or that came twice.
  if (!job || job.phase !== "ready" || !job.isGrantAsked || job.grant) return;
  if (!grant) {
    const because = refused ?? "the server gave no registry access";
    return endJob(turn, job, failedEnd("forbidden", because));
  }
  const foreign = foreignOrigin(turn.state.trust, grant);
  if (foreign !== undefined) {
    const message = refuseOrigin(turn, foreign, `for ${job.record.manifest.id}`);
    return endJob(turn, job, failedEnd("forbidden", message));
  }
  if (turn.rules.kind === "setup" && job.record.manifest.joinFor !== undefined) {
    return askJoin(turn, { ...job, grant });
  }
  launch(turn, job, { grant });
}

/** The join string that a setup hands on: good for this attempt, and in memory alone. */
export function handleJoin(
  turn: Turn,
  name: JobName,
  joinString: string | undefined,
  refused: string | undefined,
): void {
  const job = turn.state.jobs.get(name);
  if (job?.phase !== "ready" || !job.grant) return;
  if (joinString !== undefined) return launch(turn, job, { grant: job.grant, joinString });
  // Given once: when the answer was lost on its way, another job gets another one.
  endJob(turn, job, failedEnd("unavailable", refused ?? "the server gave no join string"));
}

export function handleLaunched(turn: Turn, name: JobName): void {
  const job = turn.state.jobs.get(name);
  if (job?.phase === "launching") runs(turn, job);
}

export function handleNotLaunched(turn: Turn, name: JobName, why: NotLaunched): void {
  const job = turn.state.jobs.get(name);
  if (job?.phase !== "launching") return;
  const { logBytes, logSha256, code, message, mayHaveRun = false } = why;
  const end = mayHaveRun
    ? openEnd(job, code, `it may have begun before its launch failed: ${message}`)
    : failedEnd(code, message);
  endJob(turn, job, { ...end, logBytes, logSha256 });
}

/** What the runtime says of a job whose fate a crash of the agent left open. */
export function handleInspected(turn: Turn, name: JobName, run: JobRun): void {
  const job = turn.state.jobs.get(name);
  if (job?.phase !== "recovering") return;
  const isLaunchOpen = job.record.status === "launching";
  const isToStart = run.kind === "absent" || (run.kind === "waiting" && isLaunchOpen);
  if (!isToStart) return runs(turn, job);

  const isAtMostOnce = stepOf(job.record).effect === "at-most-once";
  // Waiting is known not to have begun; absent could as well be begun, ended and wiped away.
  if (isAtMostOnce && run.kind === "absent") {
    const because = "the agent was interrupted while launching it, and it may not be run twice";
    return endJob(turn, job, openEnd(job, "lost", because));
  }
  if (!isLaunchOpen) {
    return endJob(turn, job, failedEnd("lost", "the runtime no longer knows the job"));
  }
  if (job.record.cancelGraceMs !== undefined) {
    return endJob(turn, job, CANCELLED);
  }
  if (job.record.launches > turn.rules.resumesMax) {
    const message = `it was launched ${job.record.launches} times and never came to run`;
    return endJob(turn, job, failedEnd("poisoned", message));
  }
  // The intent was journaled and nothing was started: the launch is still to be done.
  setJob(turn, { ...job, phase: "ready" });
}

export function handleExited(turn: Turn, name: JobName, ended: EndedJob): void {
  const job = turn.state.jobs.get(name);
  if (job?.phase === "running") endJob(turn, job, ended);
}

function askGrant(turn: Turn, job: AgentJob): void {
  if (job.isGrantAsked || turn.state.link.status === "down") return;
  const { id, attempt } = job.record.manifest;
  setJob(turn, { ...job, isGrantAsked: true });
  send(turn, { type: "grant_want", job: id, attempt });
}

function askJoin(turn: Turn, job: AgentJob): void {
  const { id, attempt } = job.record.manifest;
  setJob(turn, job);
  send(turn, { type: "join_want", job: id, attempt });
}

interface Given {
  readonly grant?: Grant;
  readonly joinString?: string;
}

function launch(turn: Turn, job: AgentJob, { grant, joinString }: Given = {}): void {
  const launches = job.record.launches + 1;
  const record: JobRecord = { ...job.record, status: "launching", launches };
  const { manifest } = record;
  journal(turn, { kind: "job", record });
  if (turn.rules.kind === "install" && manifest.operation === "apply") keepApplied(turn, manifest);
  setJob(turn, { ...job, record, phase: "launching", isGrantAsked: false, grant: undefined });
  act(turn, { kind: "launch", record, grant, joinString });
}

function runs(turn: Turn, job: AgentJob): void {
  const { id, attempt } = job.record.manifest;
  const record: JobRecord = { ...job.record, status: "running" };
  if (job.record.status !== "running") {
    journal(turn, { kind: "job", record });
    recordEvent(turn, { type: "job_started", at: turn.now, job: id, attempt });
  }
  setJob(turn, { ...job, record, phase: "running" });
  act(turn, { kind: "follow", record });
  const { cancelGraceMs } = record;
  if (cancelGraceMs !== undefined) {
    act(turn, { kind: "stop", name: record.name, graceMs: cancelGraceMs });
  }
}

/** People who look on have places of their own: they never take one from a deploy. */
function isFull({ state, rules }: Turn, { record }: AgentJob): boolean {
  const isLooking = isDebug(record);
  const active = [...state.jobs.values()].filter(
    (job) =>
      isDebug(job.record) === isLooking &&
      ["recovering", "launching", "running"].includes(job.phase),
  );
  return active.length >= (isLooking ? rules.debugJobsMax : rules.jobsMax);
}

/**
 * One job at a time changes a component, whoever asks: a server that was set back has forgotten the one
 * that runs here.
 */
function isComponentChanging({ state }: Turn, { record, isGrantAsked }: AgentJob): boolean {
  if (!isChanging(record) || isGrantAsked) return false;
  const { component } = stepOf(record);
  const install = installOf(record.manifest);
  return [...state.jobs.values()].some(
    (other) =>
      other.phase !== "ended" &&
      (other.phase !== "ready" || other.isGrantAsked) &&
      isChanging(other.record) &&
      stepOf(other.record).component === component &&
      installOf(other.record.manifest) === install,
  );
}

/** A status look-up may hold the component's locks: what changes the component waits for its end. */
function isComponentBusy(turn: Turn, { record }: AgentJob): boolean {
  const { component } = stepOf(record);
  const scheduled = component === undefined ? undefined : turn.state.schedule.get(component);
  if (scheduled?.running === undefined || !isChanging(record)) return false;
  if (!scheduled.isStopping) {
    setScheduled(turn, { ...scheduled, isStopping: true });
    act(turn, { kind: "stop", name: scheduled.running, graceMs: STATUS_STOP_MS });
  }
  return true;
}
