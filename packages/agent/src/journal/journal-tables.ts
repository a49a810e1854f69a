// The journal's tables: what is read from them at a start, and how each write changes them.

import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import { AgentEvent } from "@exclave/api";
import { JobName } from "@exclave/core";
import { z } from "zod";
import {
  Applied,
  JobRecord,
  type JournalSnapshot,
  type JournalWrite,
  KeptCheckpoint,
  renumberedEnd,
  ScheduleEntry,
  SETTLED_KEPT_MAX,
} from "./journal.ts";
import { isReleaseWrite } from "./release-memory.ts";
import { createReleaseTables, type ReleaseTables } from "./release-tables.ts";

export interface JournalTables {
  readonly run: (sql: string, ...values: (string | number | null)[]) => void;
  readonly rows: (sql: string, ...values: string[]) => Record<string, SQLOutputValue>[];
  /** One value, by name. */
  readonly fact: (name: string) => string | undefined;
  readonly setFact: (name: string, value: string | number) => void;
  readonly releases: ReleaseTables;
}

export function createJournalTables(database: DatabaseSync): JournalTables {
  const run: JournalTables["run"] = (sql, ...values) => void database.prepare(sql).run(...values);
  const rows: JournalTables["rows"] = (sql, ...values) => database.prepare(sql).all(...values);
  return {
    run,
    rows,
    fact: (name) =>
      rows("select value from facts where name = ?", name)[0]?.value as string | undefined,
    setFact: (name, value) =>
      run("insert or replace into facts values (?, ?)", name, String(value)),
    releases: createReleaseTables(database),
  };
}

export function loadSnapshot({ rows, fact }: JournalTables): JournalSnapshot {
  const events = rows("select seq, body from events order by seq").map(({ seq, body }) => ({
    seq: Number(seq),
    body: AgentEvent.parse(JSON.parse(String(body))),
  }));
  return {
    journalId: String(fact("journal_id")),
    fresh: fact("written") === undefined,
    downAcked: Number(fact("down_acked") ?? 0),
    upHead: Number(fact("up_head") ?? 0),
    upAcked: Number(fact("up_acked") ?? 0),
    issueNo: Number(fact("issue_no") ?? 0),
    issuedFloor: Number(fact("issued_floor") ?? 0),
    events,
    jobs: rows("select record from jobs order by rowid").map(({ record }) =>
      JobRecord.parse(JSON.parse(String(record))),
    ),
    settled: rows("select name from settled order by ordinal").map(({ name }) =>
      JobName.parse(name),
    ),
    schedule: rows("select entry from schedule order by component").map(({ entry }) =>
      ScheduleEntry.parse(JSON.parse(String(entry))),
    ),
    applied: Applied.parse(JSON.parse(fact("applied") ?? "{}")),
    checkpoints: z.array(KeptCheckpoint).parse(JSON.parse(fact("checkpoints") ?? "[]")),
    foreign: z.array(JobName).parse(JSON.parse(fact("foreign") ?? "[]")),
  };
}

export function writeEntry(tables: JournalTables, entry: JournalWrite): void {
  const { run, setFact, releases } = tables;
  if (isReleaseWrite(entry)) return releases.write(entry);
  switch (entry.kind) {
    case "down_acked":
      setFact("down_acked", entry.seq);
      break;
    case "event":
      run("insert into events values (?, ?)", entry.seq, JSON.stringify(entry.body));
      setFact("up_head", entry.seq);
      break;
    case "events_acked":
      run("delete from events where seq <= ?", entry.upTo);
      setFact("up_acked", entry.upTo);
      break;
    case "issue":
      setFact("issue_no", entry.issueNo);
      break;
    case "issued_floor":
      setFact("issued_floor", entry.at);
      break;
    case "job":
      keepJob(tables, entry.record);
      break;
    case "job_removed":
      run("insert or ignore into settled (name) select name from jobs where name = ?", entry.name);
      trimSettled(tables);
      run("delete from jobs where name = ?", entry.name);
      run("delete from job_secrets where name = ?", entry.name);
      break;
    case "checkpoints":
      setFact("checkpoints", JSON.stringify(entry.list));
      break;
    case "foreign":
      setFact("foreign", JSON.stringify(entry.names));
      for (const name of entry.names) run("insert or ignore into settled (name) values (?)", name);
      trimSettled(tables);
      break;
    case "schedule": {
      const text = JSON.stringify(entry.entry);
      run("insert or replace into schedule values (?, ?)", entry.entry.component, text);
      break;
    }
    case "schedule_removed":
      run("delete from schedule where component = ?", entry.component);
      break;
    case "applied":
      setFact("applied", JSON.stringify(entry.applied));
      break;
    case "outputs": {
      const text = JSON.stringify(entry.outputs);
      run("insert or replace into outputs values (?, ?)", entry.component, text);
      break;
    }
    case "outputs_removed":
      run("delete from outputs where component = ?", entry.component);
      break;
    case "secret":
      run("insert or replace into secrets values (?, ?)", entry.name, entry.value);
      break;
    case "job_secrets": {
      const text = JSON.stringify(entry.secrets);
      run("insert or replace into job_secrets values (?, ?)", entry.name, text);
      break;
    }
    case "restart":
      restart(tables, entry.journalId);
      break;
  }
}

function trimSettled({ run }: JournalTables): void {
  run(
    "delete from settled where ordinal <= (select max(ordinal) from settled) - ?",
    SETTLED_KEPT_MAX,
  );
}

function keepJob({ run }: JournalTables, record: JobRecord): void {
  run(
    `insert into jobs values (?, ?, ?)
     on conflict (name) do update set ended_seq = excluded.ended_seq, record = excluded.record`,
    record.name,
    record.endedSeq ?? null,
    JSON.stringify(record),
  );
}

/** Events get numbers from 1 on. */
function restart(tables: JournalTables, journalId: string): void {
  const { run, setFact } = tables;
  const { upAcked, events, jobs } = loadSnapshot(tables);
  setFact("journal_id", journalId);
  setFact("down_acked", 0);
  setFact("up_acked", 0);
  setFact("up_head", events.length);
  run("delete from events");
  events.forEach(({ body }, index) => {
    run("insert into events values (?, ?)", index + 1, JSON.stringify(body));
  });
  for (const record of jobs) keepJob(tables, renumberedEnd(record, upAcked));
}
