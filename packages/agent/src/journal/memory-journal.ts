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
  type ScheduleEntry,
  SETTLED_KEPT_MAX,
} from "./journal.ts";
import { createMemoryReleases } from "./memory-releases.ts";
import { isReleaseWrite } from "./release-memory.ts";

export function createMemoryJournal({ journalId }: { readonly journalId: string }): Journal {
  let id = journalId;
  let fresh = true;
  let downAcked = 0;
  let upHead = 0;
  let upAcked = 0;
  let issueNo = 0;
  let issuedFloor = 0;
  let events: JournaledEvent[] = [];
  let foreign: readonly JobName[] = [];
  let checkpoints: readonly KeptCheckpoint[] = [];
  let applied = NOTHING_APPLIED;
  const jobs = new Map<JobName, JobRecord>();
  const settled = new Set<JobName>();
  const schedule = new Map<string, ScheduleEntry>();
  const outputs = new Map<string, readonly KeptOutput[]>();
  const secrets = new Map<string, string>();
  const jobSecrets = new Map<JobName, readonly string[]>();
  const releases = createMemoryReleases();

  return {
    load: (): JournalSnapshot => ({
      journalId: id,
      fresh,
      downAcked,
      upHead,
      upAcked,
      issueNo,
      issuedFloor,
      events: [...events],
      jobs: [...jobs.values()],
      settled: [...settled],
      schedule: [...schedule.values()],
      applied,
      checkpoints,
      foreign,
    }),
    commit(writes) {
      for (const entry of writes) write(entry);
      if (writes.length > 0) fresh = false;
    },
    outputs: () => new Map(outputs),
    secret: (name) => secrets.get(name),
    jobSecrets: (name) => jobSecrets.get(name) ?? [],
    statement: (index) => releases.statement(index),
    statements: () => releases.statements(),
    releases: (install) => releases.releases(install),
    close() {},
  };

  function write(entry: JournalWrite): void {
    if (isReleaseWrite(entry)) return releases.write(entry);
    switch (entry.kind) {
      case "down_acked":
        downAcked = entry.seq;
        break;
      case "event":
        upHead = entry.seq;
        events.push({ seq: entry.seq, body: entry.body });
        break;
      case "events_acked":
        upAcked = entry.upTo;
        events = events.filter(({ seq }) => seq > entry.upTo);
        break;
      case "issue":
        issueNo = entry.issueNo;
        break;
      case "issued_floor":
        issuedFloor = entry.at;
        break;
      case "job":
        jobs.set(entry.record.name, entry.record);
        break;
      case "job_removed":
        if (jobs.delete(entry.name)) settled.add(entry.name);
        keepNewest(settled, SETTLED_KEPT_MAX);
        jobSecrets.delete(entry.name);
        break;
      case "checkpoints":
        checkpoints = entry.list;
        break;
      case "foreign":
        foreign = entry.names;
        break;
      case "schedule":
        schedule.set(entry.entry.component, entry.entry);
        break;
      case "schedule_removed":
        schedule.delete(entry.component);
        break;
      case "applied":
        applied = entry.applied;
        break;
      case "outputs":
        outputs.set(entry.component, entry.outputs);
        break;
      case "outputs_removed":
        outputs.delete(entry.component);
        break;
      case "secret":
        secrets.set(entry.name, entry.value);
        break;
      case "job_secrets":
        jobSecrets.set(entry.name, entry.secrets);
        break;
      case "restart":
        restart(entry.journalId);
        break;
    }
  }

  function restart(journalId: string): void {
    const offset = upAcked;
    id = journalId;
    downAcked = 0;
    upAcked = 0;
    events = events.map(({ body }, index) => ({ seq: index + 1, body }));
    upHead = events.length;
    for (const [name, record] of jobs) {
      if (record.endedSeq === undefined) continue;
      // An end the old sequence had acknowledged has no place in the new one.
      const endedSeq = record.endedSeq - offset;
      if (endedSeq > 0) jobs.set(name, { ...record, endedSeq });
      else write({ kind: "job_removed", name });
    }
  }
}
