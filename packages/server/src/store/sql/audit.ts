// The record of what happened, as rows that each hold the hash of the one before.

import {
  type AuditEntry,
  type AuditHead,
  AuditRecord,
  appendAudit,
  EMPTY_CHAIN,
} from "@exclave/core";
import type { Kysely } from "kysely";
import type { Audit, NewestOf } from "../store.ts";
import type { Database } from "./database.ts";
import { createStatements, type Statements } from "./statements.ts";

/** What the record ends with, for whoever alone appends to it. Forgotten when anything is rolled back. */
export interface KeptHead {
  current: AuditHead | undefined;
}

export function createAudit(
  db: Kysely<Database>,
  kept?: KeptHead,
  statements: Statements = createStatements(db, new Map()),
): Audit {
  const read = ({ prev_hash: prevHash, details, ...row }: Database["audit"]): AuditRecord =>
    AuditRecord.parse({ ...row, prevHash, details: JSON.parse(details) });
  const select = (subject?: string) => {
    const query = db.selectFrom("audit").selectAll();
    return subject === undefined ? query : query.where("subject", "=", subject);
  };

  return { append, head, after, newest };

  async function append(entry: AuditEntry): Promise<void> {
    // What JSON cannot carry would change the hash on the way back.
    const text = JSON.stringify(entry.details);
    const details = JSON.parse(text) as AuditEntry["details"];
    const record = appendAudit(kept?.current ?? (await head()), { ...entry, details });
    const { prevHash: prev_hash, seq, at, actor, action, subject, hash } = record;
    const row = { seq, at, actor, action, subject, details: text, prev_hash, hash };
    await statements.run("audit append", Object.values(row), () =>
      db.insertInto("audit").values(row),
    );
    if (kept) kept.current = { size: record.seq, head: record.hash };
  }

  async function head(): Promise<AuditHead> {
    const query = db.selectFrom("audit").select(["seq", "hash"]).orderBy("seq", "desc").limit(1);
    const row = await query.executeTakeFirst();
    return row ? { size: row.seq, head: row.hash } : EMPTY_CHAIN;
  }

  async function after(seq: number, limit: number, subject?: string): Promise<AuditRecord[]> {
    const query = select(subject).where("seq", ">", seq).orderBy("seq").limit(limit);
    return (await query.execute()).map(read);
  }

  async function newest(limit: number, { subject, before }: NewestOf = {}): Promise<AuditRecord[]> {
    const all = select(subject).orderBy("seq", "desc").limit(limit);
    const query = before === undefined ? all : all.where("seq", "<", before);
    return (await query.execute()).map(read);
  }
}
