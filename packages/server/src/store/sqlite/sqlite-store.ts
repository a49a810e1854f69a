// The store in one SQLite file.

import {
  Audience,
  type AuditEntry,
  type AuditHead,
  AuditRecord,
  appendAudit,
  EMPTY_CHAIN,
} from "@exclave/core";
import { Kysely, sql } from "kysely";
import { OutboxCommand } from "../rows.ts";
import type { Audit, NewestOf, Outbox, OutboxRow, Store, Tables } from "../store.ts";
import { createTables } from "../tables.ts";
import { createDocuments, type Database } from "./documents.ts";
import { migrate } from "./migrations.ts";
import { createSqliteDialect, openDatabase } from "./sqlite-dialect.ts";

export function openSqliteStore(file: string): Store {
  const database = openDatabase(file);
  try {
    migrate(database);
  } catch (reason) {
    database.close();
    throw reason;
  }
  const db = new Kysely<Database>({ dialect: createSqliteDialect(database) });

  return {
    read: tablesOver(db),
    transaction: (work) => db.transaction().execute((tx) => work(tablesOver(tx))),
    close: () => db.destroy(),
  };
}

function tablesOver(db: Kysely<Database>): Tables {
  return createTables({
    documents: (table, schema, columnsOf) => createDocuments(db, table, schema, columnsOf),
    outbox: createOutbox(db),
    audit: createAudit(db),
    nextIssueNo: async (audience) => {
      const { rows } = await sql<{ number: number }>`
        INSERT INTO issues (audience, number) VALUES (${audience}, 1)
        ON CONFLICT (audience) DO UPDATE SET number = number + 1 RETURNING number`.execute(db);
      return rows[0]?.number ?? 1;
    },
    raiseIssueNo: async (audience, atLeast) => {
      const { rows } = await sql<{ number: number }>`
        SELECT number FROM issues WHERE audience = ${audience}`.execute(db);
      const before = rows[0]?.number ?? 0;
      if (before >= atLeast) return before;
      await sql`
        INSERT INTO issues (audience, number) VALUES (${audience}, ${atLeast})
        ON CONFLICT (audience) DO UPDATE SET number = ${atLeast}`.execute(db);
      return before;
    },
  });
}

function createOutbox(db: Kysely<Database>): Outbox {
  const read = (row: Database["outbox"]): OutboxRow => ({
    ...row,
    id: row.id as number,
    audience: Audience.parse(row.audience),
    body: OutboxCommand.parse(JSON.parse(row.body)),
  });
  const of = (audience: Audience) =>
    db.selectFrom("outbox").selectAll().where("audience", "=", audience);

  return {
    async add(audience, body) {
      const row = { audience, seq: null, job: body.job, body: JSON.stringify(body) };
      await db.insertInto("outbox").values(row).execute();
    },
    async sent(audience) {
      return (await of(audience).where("seq", "is not", null).orderBy("seq").execute()).map(read);
    },
    async waiting(audience, limit) {
      const query = of(audience).where("seq", "is", null).orderBy("id").limit(limit);
      return (await query.execute()).map(read);
    },
    async assign(id, seq) {
      await db.updateTable("outbox").set({ seq }).where("id", "=", id).execute();
    },
    async replace(id, body) {
      const set = { job: body.job, body: JSON.stringify(body) };
      await db.updateTable("outbox").set(set).where("id", "=", id).execute();
    },
    async trim(audience, seq) {
      const query = db.deleteFrom("outbox").where("audience", "=", audience);
      await query.where("seq", "<=", seq).execute();
    },
    async withdraw(job) {
      await db.deleteFrom("outbox").where("job", "=", job).where("seq", "is", null).execute();
    },
    async clear(audience) {
      await db.deleteFrom("outbox").where("audience", "=", audience).execute();
    },
  };
}

function createAudit(db: Kysely<Database>): Audit {
  const read = ({ prev_hash: prevHash, details, ...row }: Database["audit"]): AuditRecord =>
    AuditRecord.parse({ ...row, prevHash, details: JSON.parse(details) });
  const select = (subject?: string) => {
    const query = db.selectFrom("audit").selectAll();
    return subject === undefined ? query : query.where("subject", "=", subject);
  };

  return { append, head, after, newest };

  async function append(entry: AuditEntry): Promise<AuditRecord> {
    // What JSON cannot carry would change the hash on the way back.
    const details = JSON.parse(JSON.stringify(entry.details)) as AuditEntry["details"];
    const record = appendAudit(await head(), { ...entry, details });
    const { prevHash: prev_hash, ...row } = record;
    await db
      .insertInto("audit")
      .values({ ...row, prev_hash, details: JSON.stringify(details) })
      .execute();
    return record;
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
