// Health by the agent's own clock. A component that was applied is looked up again and again from
// the manifest it was applied with, whether or not the server is there; only a change is reported.

import { type JobName, jobName, type Manifest } from "@exclave/core";
import type { ScheduleEntry, SeenHealth } from "../journal/journal.ts";
import { isChanging, stepOf } from "./job-record.ts";
import { act, dropScheduled, journal, record, setScheduled, type Turn } from "./turn.ts";

/** Statuses leave room for the jobs people wait for. */
const STATUSES_MAX = 2;

export function keepSchedule(turn: Turn, component: string, manifest: Manifest): void {
  if (manifest.statusEveryMs === undefined) return forgetSchedule(turn, component);
  const entry: ScheduleEntry = { component, everyMs: manifest.statusEveryMs, manifest };
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
    if (scheduled.running !== undefined || scheduled.dueAt > turn.now) continue;
    if (running(turn) >= STATUSES_MAX || isChanged(turn, scheduled.entry.component)) continue;
    // Named by the time, so that no later look-up meets what an earlier one left behind.
    const name = jobName(`s-${scheduled.entry.component}-${turn.now}`, 1);
    setScheduled(turn, { ...scheduled, running: name });
    act(turn, { kind: "status", name, entry: scheduled.entry });
  }
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
    setScheduled(turn, { entry: scheduled.entry, dueAt });
    return;
  }
  const entry = { ...scheduled.entry, last: seen };
  journal(turn, { kind: "schedule", entry });
  record(turn, { type: "health", at: turn.now, component, ...seen });
  setScheduled(turn, { entry, dueAt });
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
