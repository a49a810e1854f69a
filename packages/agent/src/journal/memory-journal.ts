// A journal that keeps exactly what was committed, and can be opened again after its agent "died".

import type { JobName } from "@exclave/core";
import { keepNewest } from "../keep-newest.ts";
import {
  type JobRecord,
  type Journal,
  type JournaledEvent,
  type JournalSnapshot,
  type JournalWrite,
  type KeptCheckpoint,
  type KeptOutput,
  NOTHING_APPLIED,
  renumberedEnd,
  type ScheduleEntry,
  SETTLED_KEPT_MAX,
} from "./journal.ts";
import { createMemoryReleases } from "./memory-releases.ts";
import { isReleaseWrite, type ReleaseWrite } from "./release-memory.ts";

/** What was committed. */
interface Kept {
  journalId: string;
  downAcked: number;
  upHead: number;
  upAcked: number;
  issueNo: number;
  issuedFloor: number;
  events: JournaledEvent[];
  foreign: readonly JobName[];
  checkpoints: readonly KeptCheckpoint[];
  applied: JournalSnapshot["applied"];
  readonly jobs: Map<JobName, JobRecord>;
  readonly settled: Set<JobName>;
  readonly schedule: Map<string, ScheduleEntry>;
  readonly outputs: Map<string, readonly KeptOutput[]>;
  readonly secrets: Map<string, string>;
  readonly jobSecrets: Map<JobName, readonly string[]>;
}

export function createMemoryJournal({ journalId }: { readonly journalId: string }): Journal {
  const kept = nothingKept(journalId);
  const releases = createMemoryReleases();
  let fresh = true;

  return {
    load: (): JournalSnapshot => ({
      ...facts(kept),
      fresh,
      events: [...kept.events],
      jobs: [...kept.jobs.values()],
      settled: [...kept.settled],
      schedule: [...kept.schedule.values()],
    }),
    commit(writes) {
      for (const entry of writes) {
        if (isReleaseWrite(entry)) releases.write(entry);
        else write(kept, entry);
      }
      if (writes.length > 0) fresh = false;
    },
    outputs: () => new Map(kept.outputs),
    secret: (name) => kept.secrets.get(name),
    jobSecrets: (name) => kept.jobSecrets.get(name) ?? [],
    statement: (index) => releases.statement(index),
    statements: () => releases.statements(),
    releases: (install) => releases.releases(install),
    close() {},
  };
}

function nothingKept(journalId: string): Kept {
  return {
    journalId,
    downAcked: 0,
    upHead: 0,
    upAcked: 0,
    issueNo: 0,
    issuedFloor: 0,
    events: [],
    foreign: [],
    checkpoints: [],
    applied: NOTHING_APPLIED,
    jobs: new Map(),
    settled: new Set(),
    schedule: new Map(),
    outputs: new Map(),
    secrets: new Map(),
    jobSecrets: new Map(),
  };
}

function facts({ journalId, downAcked, upHead, upAcked, issueNo, issuedFloor, ...kept }: Kept) {
  const { applied, checkpoints, foreign } = kept;
  const sequences = { journalId, downAcked, upHead, upAcked, issueNo, issuedFloor };
  return { ...sequences, applied, checkpoints, foreign };
}

function write(kept: Kept, entry: Exclude<JournalWrite, ReleaseWrite>): void {
  switch (entry.kind) {
    case "down_acked":
      kept.downAcked = entry.seq;
      break;
    case "event":
      kept.upHead = entry.seq;
      kept.events.push({ seq: entry.seq, body: entry.body });
      break;
    case "events_acked":
      kept.upAcked = entry.upTo;
      kept.events = kept.events.filter(({ seq }) => seq > entry.upTo);
      break;
    case "issue":
      kept.issueNo = entry.issueNo;
      break;
    case "issued_floor":
      kept.issuedFloor = entry.at;
      break;
    case "job":
      kept.jobs.set(entry.record.name, entry.record);
      break;
    case "job_removed":
      if (kept.jobs.delete(entry.name)) kept.settled.add(entry.name);
      keepNewest(kept.settled, SETTLED_KEPT_MAX);
      kept.jobSecrets.delete(entry.name);
      break;
    case "checkpoints":
      kept.checkpoints = entry.list;
      break;
    case "foreign":
      kept.foreign = entry.names;
      for (const name of entry.names) kept.settled.add(name);
      keepNewest(kept.settled, SETTLED_KEPT_MAX);
      break;
    case "schedule":
      kept.schedule.set(entry.entry.component, entry.entry);
      break;
    case "schedule_removed":
      kept.schedule.delete(entry.component);
      break;
    case "applied":
      kept.applied = entry.applied;
      break;
    case "outputs":
      kept.outputs.set(entry.component, entry.outputs);
      break;
    case "outputs_removed":
      kept.outputs.delete(entry.component);
      break;
    case "secret":
      kept.secrets.set(entry.name, entry.value);
      break;
    case "job_secrets":
      kept.jobSecrets.set(entry.name, entry.secrets);
      break;
    case "restart":
      restart(kept, entry.journalId);
      break;
  }
}

function restart(kept: Kept, journalId: string): void {
  const offset = kept.upAcked;
  kept.journalId = journalId;
  kept.downAcked = 0;
  kept.upAcked = 0;
  kept.events = kept.events.map(({ body }, index) => ({ seq: index + 1, body }));
  kept.upHead = kept.events.length;
  for (const [name, record] of kept.jobs) kept.jobs.set(name, renumberedEnd(record, offset));
}
