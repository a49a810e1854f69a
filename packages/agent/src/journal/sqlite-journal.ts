// The journal as one SQLite file. WAL with synchronous=FULL: a commit that returned survives the
// loss of power. Readable by its owner alone: it holds the install's generated secrets.

import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, renameSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { AgentEvent } from "@exclave/api";
import { Failure, JobName } from "@exclave/core";
import { privateDatabase } from "@exclave/machine";
import { z } from "zod";
import {
  Applied,
  JobRecord,
  type Journal,
  type JournalSnapshot,
  type JournalWrite,
  KeptCheckpoint,
  KeptOutput,
  ScheduleEntry,
  SETTLED_KEPT_MAX,
} from "./journal.ts";
import { isReleaseWrite } from "./release-memory.ts";
import { createReleaseTables, RELEASE_SCHEMA } from "./release-tables.ts";

const FIRST_SCHEMA = `
  create table facts (name text primary key, value text not null) strict;
  create table events (seq integer primary key, body text not null) strict;
  create table jobs (name text primary key, ended_seq integer, record text not null) strict;
  create table settled (name text primary key) strict, without rowid;
  create table job_secrets (name text primary key, secrets text not null) strict;
  create table schedule (component text primary key, entry text not null) strict;
  create table outputs (component text primary key, outputs text not null) strict;
  create table secrets (name text primary key, value text not null) strict;
`;
/** In the order they ended: the oldest are forgotten. */
const SETTLED_IN_ORDER = `
  create table settled_in_order
    (ordinal integer primary key autoincrement, name text not null unique) strict;
  insert into settled_in_order (name) select name from settled;
  drop table settled;
  alter table settled_in_order rename to settled;
`;
/** A journal's version is how many of these it has been through. */
const MIGRATIONS = [FIRST_SCHEMA, RELEASE_SCHEMA, SETTLED_IN_ORDER];

export interface SqliteJournalOptions {
  readonly path: string;
  /** The file may not grow beyond this many pages. */
  readonly pagesMax?: number;
  /** Told when the file was damaged: it is quarantined and the journal counts as lost. */
  readonly onDamaged?: (because: string) => void;
}

export function createSqliteJournal(options: SqliteJournalOptions): Journal {
  try {
    return openJournal(options);
  } catch (reason) {
    if (!isDamaged(reason)) throw reason;
    const aside = moveAside(options.path);
    options.onDamaged?.(
      `the agent's journal was damaged; it lies in ${aside}, and a new one begins`,
    );
    return openJournal(options);
  }
}

function openJournal({ path, pagesMax }: SqliteJournalOptions): Journal {
  const database = openDatabase(path);
  if (pagesMax !== undefined) database.exec(`pragma max_page_count = ${pagesMax}`);
  const run = (sql: string, ...values: (string | number | null)[]) =>
    database.prepare(sql).run(...values);
  const rows = (sql: string, ...values: string[]) => database.prepare(sql).all(...values);
  const fact = (name: string) =>
    rows("select value from facts where name = ?", name)[0]?.value as string | undefined;
  const setFact = (name: string, value: string | number) =>
    run("insert or replace into facts values (?, ?)", name, String(value));

  if (fact("journal_id") === undefined) setFact("journal_id", randomUUID());
  const releases = createReleaseTables(database);

  mustLoad();
  return {
    load,
    commit,
    outputs,
    secret,
    jobSecrets,
    statement: (index) => releases.statement(index),
    statements: () => releases.statements(),
    releases: (install) => releases.releases(install),
    close: () => database.close(),
  };

  /** Read once before anybody relies on it: what cannot be read is damage. */
  function mustLoad(): void {
    try {
      load();
      outputs();
    } catch (cause) {
      database.close();
      throw cause instanceof SyntaxError || cause instanceof z.ZodError
        ? damaged(cause)
        : journalFailure(cause);
    }
  }

  function load(): JournalSnapshot {
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

  function commit(writes: readonly JournalWrite[]): void {
    if (writes.length === 0) return;
    try {
      database.exec("begin immediate");
      for (const entry of writes) write(entry);
      setFact("written", 1);
      database.exec("commit");
    } catch (cause) {
      if (database.isTransaction) database.exec("rollback");
      throw journalFailure(cause);
    }
  }

  function write(entry: JournalWrite): void {
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
        keepJob(entry.record);
        break;
      case "job_removed":
        run(
          "insert or ignore into settled (name) select name from jobs where name = ?",
          entry.name,
        );
        run(
          "delete from settled where ordinal <= (select max(ordinal) from settled) - ?",
          SETTLED_KEPT_MAX,
        );
        run("delete from jobs where name = ?", entry.name);
        run("delete from job_secrets where name = ?", entry.name);
        break;
      case "checkpoints":
        setFact("checkpoints", JSON.stringify(entry.list));
        break;
      case "foreign":
        setFact("foreign", JSON.stringify(entry.names));
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
        restart(entry.journalId);
        break;
    }
  }

  function keepJob(record: JobRecord): void {
    run(
      `insert into jobs values (?, ?, ?)
       on conflict (name) do update set ended_seq = excluded.ended_seq, record = excluded.record`,
      record.name,
      record.endedSeq ?? null,
      JSON.stringify(record),
    );
  }

  function restart(journalId: string): void {
    const { upAcked, events, jobs } = load();
    setFact("journal_id", journalId);
    setFact("down_acked", 0);
    setFact("up_acked", 0);
    setFact("up_head", events.length);
    run("delete from events");
    events.forEach(({ body }, index) => {
      run("insert into events values (?, ?)", index + 1, JSON.stringify(body));
    });
    for (const record of jobs) {
      if (record.endedSeq === undefined) continue;
      // An end the old sequence had acknowledged has no place in the new one.
      const endedSeq = record.endedSeq - upAcked;
      if (endedSeq > 0) keepJob({ ...record, endedSeq });
      else write({ kind: "job_removed", name: record.name });
    }
  }

  function outputs(): ReadonlyMap<string, readonly KeptOutput[]> {
    const kept = rows("select component, outputs from outputs order by component");
    return new Map(
      kept.map(({ component, outputs }) => [
        String(component),
        z.array(KeptOutput).parse(JSON.parse(String(outputs))),
      ]),
    );
  }

  function secret(name: string): string | undefined {
    return rows("select value from secrets where name = ?", name)[0]?.value as string | undefined;
  }

  function jobSecrets(name: JobName): readonly string[] {
    const row = rows("select secrets from job_secrets where name = ?", name)[0];
    return row ? z.array(z.string()).parse(JSON.parse(String(row.secrets))) : [];
  }
}

function openDatabase(path: string): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    privateDatabase(path);
    database = new DatabaseSync(path);
    database.exec("pragma journal_mode = wal; pragma synchronous = full;");
    const version = Number(database.prepare("pragma user_version").get()?.user_version);
    const check = Object.values(database.prepare("pragma quick_check(1)").get() ?? {})[0];
    if (check !== "ok") throw damaged(new Error(String(check)));
    if (version > MIGRATIONS.length) {
      throw new Failure("conflict", `${path} was written by a newer agent than this one`);
    }
    for (const [done, migration] of MIGRATIONS.entries()) {
      if (done < version) continue;
      database.exec(`begin; ${migration} pragma user_version = ${done + 1}; commit;`);
    }
    return database;
  } catch (cause) {
    database?.close();
    throw journalFailure(cause);
  }
}

function journalFailure(cause: unknown): Failure {
  if (cause instanceof Failure) return cause;
  const { errcode, message } = cause as { errcode?: number; message?: string };
  const SQLITE_FULL = 13;
  // The low byte is the primary code, the rest says more.
  if (errcode !== undefined && (errcode & 0xff) === SQLITE_FULL) {
    return new Failure("disk_full", "there is no room left for the agent's journal", { cause });
  }
  if (errcode !== undefined && DAMAGED_CODES.has(errcode & 0xff)) return damaged(cause);
  return new Failure("unavailable", `the agent's journal cannot be written: ${message}`, { cause });
}

/** SQLITE_CORRUPT and SQLITE_NOTADB. */
const DAMAGED_CODES = new Set([11, 26]);

function damaged(cause: unknown): Failure {
  const message = `the agent's journal is damaged: ${(cause as Error).message}`;
  return new Failure("unavailable", message, { cause, details: { isDamaged: true } });
}

/** Whether a start from an empty journal is the only way on. */
export function isDamaged(reason: unknown): boolean {
  return reason instanceof Failure && reason.details.isDamaged === true;
}

function moveAside(path: string): string {
  const aside = `${path}.damaged-${Date.now()}`;
  for (const ending of ["", "-wal", "-shm"]) {
    if (existsSync(path + ending)) renameSync(path + ending, aside + ending);
  }
  return aside;
}
