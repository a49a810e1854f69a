// Health by the agent's own clock. A component that was applied is looked up again and again from
// the manifest it was applied with, whether or not the server is there; only a change is reported.

import { type AppliedComponent, LOOKS_MAX } from "@exclave/api";
import { type JobName, jobName, type Manifest } from "@exclave/core";
import type { Applied, ScheduleEntry, SeenHealth } from "../journal/journal.ts";
import { SCHEDULED_MAX, STATUS_EVERY_MS_MIN } from "./agent-limits.ts";
import type { Scheduled } from "./agent-state.ts";
import { isChanging, stepOf } from "./job-record.ts";
import { act, dropScheduled, journal, record, setScheduled, type Turn } from "./turn.ts";

/** Statuses leave room for the jobs people wait for. */
const STATUSES_MAX = 2;

export function keepSchedule(turn: Turn, component: string, manifest: Manifest): void {
  if (manifest.statusEveryMs === undefined) return forgetSchedule(turn, component);
  const { schedule } = turn.state;
  if (!schedule.has(component) && schedule.size >= SCHEDULED_MAX) {
    const text = `the status of ${component} is not looked up: ${SCHEDULED_MAX} components are`;
    return act(turn, { kind: "note", level: "warn", text });
  }
  const everyMs = Math.max(manifest.statusEveryMs, STATUS_EVERY_MS_MIN);
  const entry: ScheduleEntry = { component, everyMs, manifest };
  journal(turn, { kind: "schedule", entry });
  // At once: people wait to hear that what they just deployed is healthy.
  setScheduled(turn, { entry, dueAt: turn.now });
}

export function forgetSchedule(turn: Turn, component: string): void {
  if (!turn.state.schedule.has(component)) return;
  journal(turn, { kind: "schedule_removed", component });
  dropScheduled(turn, component);
}

export function startDueStatuses(turn: Turn): void {
  for (const scheduled of turn.state.schedule.values()) {
    if (scheduled.running !== undefined || !isDue(scheduled, turn.now)) continue;
    if (running(turn) >= STATUSES_MAX || isChanged(turn, scheduled.entry.component)) continue;
    // Named by the time, so that no later look-up meets what an earlier one left behind.
    const name = jobName(`s-${scheduled.entry.component}-${turn.now}`, 1);
    setScheduled(turn, { ...scheduled, running: name });
    act(turn, { kind: "status", name, entry: scheduled.entry });
  }
}

/** Due by a time further ahead than its pause was written by a clock that was wrong. */
function isDue({ dueAt, entry }: Scheduled, now: number): boolean {
  return dueAt <= now || dueAt > now + entry.everyMs;
}

export interface StatusSeen {
  readonly component: string;
  readonly name: JobName;
  readonly seen: SeenHealth;
}

export function handleStatusSeen(turn: Turn, { component, name, seen }: StatusSeen): void {
  const scheduled = turn.state.schedule.get(component);
  // Destroyed while it was looked up: what was seen is about something that is gone.
  if (scheduled?.running !== name) return;
  const dueAt = turn.now + scheduled.entry.everyMs;

  // While something changes the component, a look-up was cut short and says nothing.
  if (isChanged(turn, component) || isSame(scheduled.entry.last, seen)) {
    const { lookedAt } = isChanged(turn, component) ? scheduled : { lookedAt: turn.now };
    setScheduled(turn, { entry: scheduled.entry, dueAt, lookedAt });
    return;
  }
  const entry = { ...scheduled.entry, last: seen };
  journal(turn, { kind: "schedule", entry });
  record(turn, { type: "health", at: turn.now, component, ...seen });
  setScheduled(turn, { entry, dueAt, lookedAt: turn.now });
}

/** What the server is told with every pong: health is reported when it changes, looks always. */
export function looks({ state, now }: Turn): { component: string; agoMs: number }[] {
  return [...state.schedule.values()].slice(0, LOOKS_MAX).flatMap(({ entry, lookedAt }) => {
    // By a clock that was ahead nobody knows how long ago it was.
    if (lookedAt === undefined || lookedAt > now) return [];
    return [{ component: entry.component, agoMs: now - lookedAt }];
  });
}

/** Before an apply is launched: whatever becomes of it, the server may have to be told of it. */
export function keepApplied(turn: Turn, manifest: Manifest): void {
  const fact = appliedBy(manifest);
  if (!fact) return;
  const { there, gone } = without(turn, fact.component);
  setApplied(turn, { there: [...there, fact], gone });
}

export function forgetApplied(turn: Turn, component: string): void {
  const { there, gone } = without(turn, component);
  setApplied(turn, { there, gone: [...gone, component].slice(-LOOKS_MAX) });
}

function without({ state }: Turn, component: string): Applied {
  const { there, gone } = state.applied;
  return {
    there: there.filter((fact) => fact.component !== component),
    gone: gone.filter((name) => name !== component),
  };
}

function setApplied(turn: Turn, applied: Applied): void {
  journal(turn, { kind: "applied", applied });
  turn.state = { ...turn.state, applied };
}

/** What became of each component, as far as it is known, for a server that may have forgotten. */
export function appliedComponents({ state }: Turn): {
  readonly deployed: AppliedComponent[];
  readonly destroyed: string[];
} {
  const { there, gone } = state.applied;
  const scheduled = [...state.schedule.values()].flatMap(
    ({ entry: { manifest } }) => appliedBy(manifest) ?? [],
  );
  const facts = new Map([...scheduled, ...there].map((fact) => [fact.component, fact]));
  return { deployed: [...facts.values()].slice(0, LOOKS_MAX), destroyed: [...gone] };
}

function appliedBy({ release, steps: [step] }: Manifest): AppliedComponent | undefined {
  if (step?.component === undefined || release === undefined) return undefined;
  const { component, type = "", effect } = step;
  return { component, type, release, effect };
}

function isChanged(turn: Turn, component: string): boolean {
  return [...turn.state.jobs.values()].some(
    ({ record, phase }) =>
      phase !== "ended" && isChanging(record) && stepOf(record).component === component,
  );
}

function running(turn: Turn): number {
  return [...turn.state.schedule.values()].filter(({ running }) => running !== undefined).length;
}

function isSame(last: SeenHealth | undefined, seen: SeenHealth): boolean {
  return (
    last !== undefined &&
    last.health === seen.health &&
    last.because === seen.because &&
    last.code === seen.code &&
    last.drift?.found === seen.drift?.found &&
    last.drift?.summary === seen.drift?.summary
  );
}
