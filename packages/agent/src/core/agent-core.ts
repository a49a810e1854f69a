// The agent as a pure machine: (state, input) → (state, effects). It decides what is accepted, what
// is launched, what is said and in which order; it never touches a disk, a socket or a job itself.
//
// Three rules hold everywhere. What is said or acted on is journaled before it. An attempt whose
// launch may have happened is looked up, never started blindly. A job leaves the journal only when
// the server has its end and its whole log.

import { type JobName, unreachable } from "@exclave/core";
import { noteClock } from "./agent-clock.ts";
import { closeDeliveredJobs, pumpEvents, pumpLogs } from "./agent-delivery.ts";
import {
  handleExited,
  handleInspected,
  handleLaunched,
  handleNotLaunched,
  needsGrant,
  startReadyJobs,
} from "./agent-jobs.ts";
import { askToPublish, handleFrame } from "./agent-link.ts";
import { handleForeignExited, resumeAfterLoss } from "./agent-loss.ts";
import { leaveIfRefused } from "./agent-record.ts";
import { handleStatusSeen, startDueStatuses } from "./agent-schedule.ts";
import type { AgentEffect, AgentInput, AgentRules, AgentState } from "./agent-state.ts";
import { act, raise, record, setJob, type Turn } from "./turn.ts";

export interface AgentStep {
  readonly state: AgentState;
  readonly effects: readonly AgentEffect[];
}

export function advanceAgent(state: AgentState, input: AgentInput, rules: AgentRules): AgentStep {
  const turn: Turn = { now: input.now, rules, state, effects: [] };
  handle(turn, input);
  noteClock(turn);
  startReadyJobs(turn);
  startDueStatuses(turn);
  closeDeliveredJobs(turn);
  pumpEvents(turn);
  pumpLogs(turn);
  return { state: turn.state, effects: turn.effects };
}

function handle(turn: Turn, input: AgentInput): void {
  switch (input.kind) {
    case "restored":
      handleRestored(turn, input.found, input.fresh);
      for (const because of input.alarms ?? []) {
        record(turn, { type: "alarm", at: turn.now, code: "damaged", because });
      }
      return;
    case "noticed":
      return raise(turn, input.code, input.because);
    case "foreign_exited":
      return handleForeignExited(turn, input.name, input.because);
    case "disconnected":
      return handleDisconnected(turn);
    case "frame":
      return handleFrame(turn, input.frame);
    case "inspected":
      return handleInspected(turn, input.name, input.run);
    case "launched":
      return handleLaunched(turn, input.name);
    case "not_launched":
      return handleNotLaunched(turn, input.name, input.why);
    case "spooled":
      return handleSpooled(turn, input.name, input.bytes);
    case "exited":
      return handleExited(turn, input.name, input.ended);
    case "status_seen":
      return handleStatusSeen(turn, input);
    case "published":
      record(turn, { type: "images_published", at: turn.now, images: input.images });
      turn.state = { ...turn.state, publishing: "done" };
      return;
    case "publish_failed":
      turn.state = { ...turn.state, publishing: "idle" };
      return;
    case "disk":
      turn.state = { ...turn.state, isDiskLow: input.isLow };
      return;
    case "tick":
      leaveIfRefused(turn);
      return askToPublish(turn);
    default:
      return unreachable(input);
  }
}

/** The one way to start, after a crash as after a stop: look at what is there. */
function handleRestored(turn: Turn, found: readonly JobName[], fresh: boolean): void {
  if (fresh) {
    resumeAfterLoss(turn, found);
  } else {
    // The intent of every launch is journaled first, so what the journal does not know is over.
    const { jobs, foreign } = turn.state;
    const leftovers = found.filter((name) => !jobs.has(name) && !foreign.has(name));
    for (const name of leftovers) act(turn, { kind: "remove", name });
  }
  for (const [name, { phase, record }] of turn.state.jobs) {
    if (phase === "recovering") act(turn, { kind: "inspect", name });
    if (phase === "ended" && (record.endedSeq ?? 0) <= turn.state.upAcked) {
      act(turn, { kind: "remove", name });
    }
  }
}

function handleDisconnected(turn: Turn): void {
  const { jobs, publishing } = turn.state;
  for (const { record, phase } of jobs.values()) {
    if (phase !== "ready" || !needsGrant(turn, record)) continue;
    const text = `${record.manifest.id} waits for the server, which gives access to its registry`;
    act(turn, { kind: "note", level: "info", text });
  }
  turn.state = {
    ...turn.state,
    link: { status: "down" },
    publishing: publishing === "asked" ? "idle" : publishing,
    jobs: new Map(
      [...jobs].map(([name, job]) => [name, { ...job, isGrantAsked: false, grant: undefined }]),
    ),
  };
}

function handleSpooled(turn: Turn, name: JobName, bytes: number): void {
  const job = turn.state.jobs.get(name);
  if (!job || bytes <= job.log.bytes) return;
  setJob(turn, { ...job, log: { ...job.log, bytes } });
}
