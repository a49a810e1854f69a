// Jobs the server offers: judged, and accepted or refused on record.

import { type RejectCode, type ServerCommand } from "@exclave/api";
import { jobName, type Manifest } from "@exclave/core";
import type { JobRecord } from "../journal/journal.ts";
import { JOBS_HELD_MAX } from "./agent-limits.ts";
import { serverTimeSeen } from "./agent-record.ts";
import { act, journal, record, setJob, type Turn } from "./turn.ts";

type Offer = Extract<ServerCommand, { type: "job_offer" }>;

export function handleOffer(turn: Turn, offer: Offer): void {
  const { now, rules, state } = turn;
  const { job, attempt } = offer;
  const judged = rules.judge(offer.envelope, {
    // A clock that was set back does not make an expired manifest valid again.
    now: Math.max(now, serverTimeSeen(state)),
    trust: state.trust,
    lastIssueNo: state.issueNo,
    seenAttempts: { has: (name) => state.jobs.has(name) || state.settled.has(name) },
  });

  if (judged.kind === "refused") return refuse(turn, offer, judged.code, judged.because);
  const { manifest } = judged;
  if (manifest.id !== job || manifest.attempt !== attempt) {
    const because = `the offer is for ${job} and the manifest for ${manifest.id}`;
    return refuse(turn, offer, "invalid", because);
  }
  if (manifest.notBefore < state.issuedFloor) {
    const because = "it was issued before this agent lost its journal, and may have run then";
    return refuse(turn, offer, "expired", because);
  }
  turn.state = { ...turn.state, issueNo: manifest.issueNo };
  journal(turn, { kind: "issue", issueNo: manifest.issueNo });
  if (isStale(turn, manifest)) {
    return refuse(turn, offer, "stale_attempt", "a later attempt of this job is known here");
  }
  if (manifest.steps.length > 1) {
    return refuse(turn, offer, "invalid", "this agent runs jobs of one step");
  }
  if (state.jobs.size >= JOBS_HELD_MAX) {
    const because = `the agent holds ${state.jobs.size} jobs, as many as it keeps`;
    return refuse(turn, offer, "rate_limited", because);
  }
  if (state.isDiskLow) {
    return refuse(turn, offer, "disk_full", "there is too little room on the agent's disk");
  }
  accept(turn, manifest);
}

function accept(turn: Turn, manifest: Manifest): void {
  const { id, attempt } = manifest;
  const name = jobName(id, attempt);
  const accepted: JobRecord = { name, manifest, status: "accepted", launches: 0 };
  journal(turn, { kind: "job", record: accepted });
  record(turn, { type: "job_accepted", at: turn.now, job: id, attempt });
  setJob(turn, {
    record: accepted,
    phase: "ready",
    isGrantAsked: false,
    log: { bytes: 0, sent: 0, acked: 0 },
  });
}

export function refuse(
  turn: Turn,
  offer: Pick<Offer, "job" | "attempt">,
  code: RejectCode,
  because: string,
): void {
  const { job, attempt } = offer;
  act(turn, { kind: "note", level: "warn", text: `refused ${job} attempt ${attempt}: ${because}` });
  // Said of the job, it would look like the end of the attempt that is really running.
  const name = jobName(job, attempt);
  if (turn.state.jobs.has(name) || turn.state.foreign.has(name)) {
    const text = `an offer of ${job} attempt ${attempt}, which is known here: ${because}`;
    record(turn, { type: "alarm", at: turn.now, code, because: text });
  } else {
    record(turn, { type: "job_rejected", at: turn.now, job, attempt, code, because });
  }
}

function isStale(turn: Turn, { id, attempt }: Manifest): boolean {
  return [...turn.state.jobs.values()].some(
    ({ record }) => record.manifest.id === id && record.manifest.attempt > attempt,
  );
}
