// The journal as one SQLite file. WAL with synchronous=FULL: a commit that returned survives the
// loss of power. Readable by its owner alone: it holds the install's generated secrets.

import { randomUUID } from "node:crypto";
import type { JobName } from "@exclave/core";
import { z } from "zod";
import { type Journal, type JournalWrite, KeptOutput } from "./journal.ts";
import { damaged, isDamaged, journalFailure, moveAside, openDatabase } from "./journal-database.ts";
import { createJournalTables, loadSnapshot, writeEntry } from "./journal-tables.ts";

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
  const tables = createJournalTables(database);
  const { rows, releases } = tables;
  if (tables.fact("journal_id") === undefined) tables.setFact("journal_id", randomUUID());

  mustLoad();
  return {
    load: () => loadSnapshot(tables),
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
      loadSnapshot(tables);
      outputs();
    } catch (cause) {
      database.close();
      throw cause instanceof SyntaxError || cause instanceof z.ZodError
        ? damaged(cause)
        : journalFailure(cause);
    }
  }

  function commit(writes: readonly JournalWrite[]): void {
    if (writes.length === 0) return;
    try {
      database.exec("begin immediate");
      for (const entry of writes) writeEntry(tables, entry);
      tables.setFact("written", 1);
      database.exec("commit");
    } catch (cause) {
      if (database.isTransaction) database.exec("rollback");
      throw journalFailure(cause);
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
