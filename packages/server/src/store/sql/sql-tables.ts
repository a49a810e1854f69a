// Every noun over a connection or a transaction of a database that speaks SQL.

import { type Kysely, sql } from "kysely";
import type { Tables } from "../store.ts";
import { createTables } from "../tables.ts";
import { createAudit, type KeptHead } from "./audit.ts";
import type { Database } from "./database.ts";
import { createDocuments, type Shared } from "./documents.ts";
import { createOutbox } from "./outbox.ts";
import { createRowCache, type RowCache } from "./row-cache.ts";
import { createStatements, type Execute } from "./statements.ts";

export interface SqlTablesOptions {
  /** Where the one connection that appends keeps the end of the record. */
  readonly headKept?: KeptHead;
  /** For all tables of the same database. */
  readonly shared?: Shared;
  /** Runs compiled queries at once, where the database is in this process. */
  readonly execute?: Execute;
  /** Of the one connection that writes. Forgotten when anything is rolled back. */
  readonly own?: RowCache;
}

export function newShared(): Shared {
  return { compiled: new Map(), rows: createRowCache() };
}

export function sqlTables(db: Kysely<Database>, options: SqlTablesOptions = {}): Tables {
  const { headKept, shared = newShared(), execute, own } = options;
  const statements = createStatements(db, shared.compiled, execute);
  const reach = { statements, rows: shared.rows, own };
  return createTables({
    documents: (...noun) => createDocuments(db, reach, ...noun),
    outbox: createOutbox(db, reach),
    audit: createAudit(db, headKept, statements),
    nextIssueNo: async (audience) => {
      const next = sql`
        INSERT INTO issues (audience, number) VALUES (${audience}, 1)
        ON CONFLICT (audience) DO UPDATE SET number = issues.number + 1 RETURNING number`;
      const { rows } = await statements.run<{ number: number }>("issues next", [audience], () => ({
        compile: () => next.compile(db),
      }));
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
