// The life of an accepted job in the agent: when it may be launched, what to do about one whose
// launch a crash left open, and what its end leaves behind.

import type { Grant } from "@exclave/api";
import { graceFor, type JobId, type JobName, jobName } from "@exclave/core";
import type { JobRun } from "@exclave/runtime";
import type { JobRecord } from "../journal/journal.ts";
import { foreignOrigin, refuseOrigin } from "./agent-origins.ts";
import { forgetSchedule, keepSchedule } from "./agent-schedule.ts";
import type { AgentJob, CancelCommand, EndedJob, NotLaunched } from "./agent-state.ts";
import { installOf, isChanging, isDebug, releaseOf, stepOf } from "./job-record.ts";
import {
  act,
  journal,
  record as recordEvent,
  send,
  setJob,
  setScheduled,
  type Turn,
} from "./turn.ts";

/** The log of a job that never said anything. */
export const NOTHING_SAID = {
  logBytes: 0,
  logSha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
} as const;
const STATUS_STOP_MS = 2_000;
/** As many as fit one frame beside everything else. */
const ARTIFACTS_MAX = 300;

/** Whether the job reads or writes the vendor's registry, for which only the server gives access. */
export function needsGrant(turn: Turn, record: JobRecord): boolean {
  return turn.rules.kind !== "install" || record.manifest.operation === "sync";
}

export function startReadyJobs(turn: Turn): void {
  for (const job of turn.state.jobs.values()) {
    if (job.phase !== "ready") continue;
    if (turn.now > job.record.manifest.notAfter) {
      const message = "its time was over before it could be launched";
      endJob(turn, job, failed("expired", message));
      continue;
    }
    if (isFull(turn, job) || isComponentBusy(turn, job)) continue;
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
    return endJob(turn, job, failed("forbidden", because));
  }
  const foreign = foreignOrigin(turn.state.trust, grant);
  if (foreign !== undefined) {
    const message = refuseOrigin(turn, foreign, `for ${job.record.manifest.id}`);
    return endJob(turn, job, failed("forbidden", message));
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
  endJob(turn, job, failed("unavailable", refused ?? "the server gave no join string"));
}

export function handleLaunched(turn: Turn, name: JobName): void {
  const job = turn.state.jobs.get(name);
  if (job?.phase === "launching") runs(turn, job);
}

export function handleNotLaunched(turn: Turn, name: JobName, why: NotLaunched): void {
  const job = turn.state.jobs.get(name);
  if (job?.phase !== "launching") return;
  const { logBytes, logSha256, code, message, mayHaveRun = false } = why;
  const isOpen = mayHaveRun && stepOf(job.record).effect === "at-most-once";
  const because = `it may have begun before its launch failed: ${message}`;
  const end = isOpen
    ? { ...nothing(), outcome: { kind: "unknown" as const, because } }
    : failed(code, message);
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
    return endJob(turn, job, { ...nothing(), outcome: { kind: "unknown", because } });
  }
  if (!isLaunchOpen) {
    return endJob(turn, job, failed("lost", "the runtime no longer knows the job"));
  }
  if (job.record.cancelGraceMs !== undefined) {
    return endJob(turn, job, { ...nothing(), outcome: { kind: "cancelled" } });
  }
  if (job.record.launches > turn.rules.resumesMax) {
    const message = `it was launched ${job.record.launches} times and never came to run`;
    return endJob(turn, job, failed("poisoned", message));
  }
  // The intent was journaled and nothing was started: the launch is still to be done.
  setJob(turn, { ...job, phase: "ready" });
}

export function handleExited(turn: Turn, name: JobName, ended: EndedJob): void {
  const job = turn.state.jobs.get(name);
  if (job?.phase === "running") endJob(turn, job, ended);
}

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
    endJob(turn, { ...job, record }, { ...nothing(), outcome: { kind: "cancelled" } });
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
  journal(turn, { kind: "job", record });
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

/** The result, what follows from it, and the job's close: one commit, so none is there without the rest. */
export function endJob(turn: Turn, job: AgentJob, ended: EndedJob): void {
  const { id, attempt } = job.record.manifest;
  const endedSeq = recordEvent(turn, {
    type: "job_ended",
    at: turn.now,
    job: id,
    attempt,
    outcome: ended.outcome,
    outputs: reportedOutputs(ended),
    outputsDigest: ended.outputsDigest,
    artifacts: ended.artifacts.slice(0, ARTIFACTS_MAX),
    result: ended.result,
    report: ended.report,
    logBytes: ended.logBytes,
    logSha256: ended.logSha256,
  });
  const record: JobRecord = {
    ...job.record,
    status: "ended",
    endedSeq,
    logBytes: ended.logBytes,
  };
  journal(turn, { kind: "job", record });
  if (ended.outcome.kind === "succeeded") keepConsequences(turn, record, ended);
  const log = { ...job.log, bytes: ended.logBytes };
  setJob(turn, { ...job, record, phase: "ended", isGrantAsked: false, grant: undefined, log });
}

function keepConsequences(turn: Turn, record: JobRecord, ended: EndedJob): void {
  const { component } = stepOf(record);
  if (component === undefined || turn.rules.kind === "build") return;
  keepRelease(turn, record, component);
  if (turn.rules.kind !== "install") return;
  if (record.manifest.operation === "apply") {
    journal(turn, { kind: "outputs", component, outputs: ended.outputs });
    keepSchedule(turn, component, record.manifest);
  }
  // The server asks for a status so that one that lost its schedule watches the component again.
  if (record.manifest.operation === "status" && record.manifest.statusEveryMs !== undefined) {
    keepSchedule(turn, component, record.manifest);
  }
  if (record.manifest.operation === "destroy") {
    journal(turn, { kind: "outputs_removed", component });
    forgetSchedule(turn, component);
  }
}

/** From which release a component is deployed now: that one may look at it and take it down. */
function keepRelease(turn: Turn, record: JobRecord, component: string): void {
  const install = installOf(record.manifest);
  const index = releaseOf(record);
  const { operation } = record.manifest;
  if (operation === "apply" && index !== undefined) {
    journal(turn, { kind: "deployed", install, component, index });
  }
  if (operation !== "destroy") return;
  // A setup agent's one component is the sandbox: with it the whole install is gone.
  const isSandbox = turn.rules.kind === "setup";
  journal(
    turn,
    isSandbox ? { kind: "release_forgotten", install } : { kind: "undeployed", install, component },
  );
}

/** Values leave the install only if they are not sensitive, and only as many as fit one frame. */
function reportedOutputs({ outputs }: EndedJob) {
  const ROOM_BYTES = 96 * 1024;
  let used = 0;
  return outputs.map(({ name, value, sensitive }) => {
    used += JSON.stringify(value ?? null).length;
    return sensitive || used > ROOM_BYTES ? { name, sensitive } : { name, sensitive, value };
  });
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

/** The end of a job that was launched and of which there is no trace. */
export function lostJob({ record }: AgentJob): EndedJob {
  const because = "the agent lost its journal, and the runtime no longer knows the job";
  return stepOf(record).effect === "at-most-once"
    ? { ...nothing(), outcome: { kind: "unknown", because } }
    : failed("lost", because);
}

function failed(code: NotLaunched["code"], message: string): EndedJob {
  return { ...nothing(), outcome: { kind: "failed", code, message } };
}

function nothing(): Omit<EndedJob, "outcome"> {
  return { outputs: [], artifacts: [], ...NOTHING_SAID };
}
