// One step of the agent core in the making: the state so far and the effects so far. Journal writes
// made in a row become one commit, so that what belongs together is on disk together.

import type { AgentEvent, AgentFrame } from "@exclave/api";
import type { JobName } from "@exclave/core";
import { type JournalWrite, SETTLED_KEPT_MAX } from "../journal/journal.ts";
import { keepNewest } from "../keep-newest.ts";
import type { AgentEffect, AgentJob, AgentRules, AgentState, Scheduled } from "./agent-state.ts";

export interface Turn {
  readonly now: number;
  readonly rules: AgentRules;
  state: AgentState;
  readonly effects: AgentEffect[];
}

export function act(turn: Turn, effect: AgentEffect): void {
  turn.effects.push(effect);
}

export function send(turn: Turn, frame: AgentFrame): void {
  act(turn, { kind: "send", frame });
}

export function journal(turn: Turn, ...writes: JournalWrite[]): void {
  const last = turn.effects.at(-1);
  if (last?.kind === "journal") {
    turn.effects[turn.effects.length - 1] = { ...last, writes: [...last.writes, ...writes] };
  } else {
    act(turn, { kind: "journal", writes });
  }
}

/** Adds a record to the agent's own sequence. It is sent at the end of the step. */
export function record(turn: Turn, body: AgentEvent): number {
  const seq = turn.state.upHead + 1;
  turn.state = {
    ...turn.state,
    upHead: seq,
    events: [...turn.state.events, { seq, body }],
  };
  journal(turn, { kind: "event", seq, body });
  return seq;
}

/** Something no job explains: for the log of this machine and for the record. */
export function raise(turn: Turn, code: string, because: string): void {
  act(turn, { kind: "note", level: "warn", text: because });
  record(turn, { type: "alarm", at: turn.now, code, because });
}

export function setJob(turn: Turn, job: AgentJob): void {
  const jobs = new Map(turn.state.jobs).set(job.record.name, job);
  turn.state = { ...turn.state, jobs };
}

export function dropJob(turn: Pick<Turn, "state">, name: JobName): void {
  const jobs = new Map(turn.state.jobs);
  jobs.delete(name);
  const settled = new Set(turn.state.settled).add(name);
  keepNewest(settled, SETTLED_KEPT_MAX);
  turn.state = { ...turn.state, jobs, settled };
}

export function setScheduled(turn: Turn, scheduled: Scheduled): void {
  const schedule = new Map(turn.state.schedule).set(scheduled.entry.component, scheduled);
  turn.state = { ...turn.state, schedule };
}

export function dropScheduled(turn: Turn, component: string): void {
  const schedule = new Map(turn.state.schedule);
  schedule.delete(component);
  turn.state = { ...turn.state, schedule };
}
