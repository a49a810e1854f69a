// Every noun over a connection or a transaction of a database that speaks SQL.

import { type Kysely, sql } from "kysely";
import type { Tables } from "../store.ts";
import { createTables } from "../tables.ts";
import { createAudit, type KeptHead } from "./audit.ts";
import type { Database } from "./database.ts";
import { createDocuments } from "./documents.ts";
import { createOutbox } from "./outbox.ts";

/** `headKept` is where the one connection that appends keeps the end of the record. */
export function sqlTables(db: Kysely<Database>, headKept?: KeptHead): Tables {
  return createTables({
    documents: (table, schema, columnsOf) => createDocuments(db, table, schema, columnsOf),
    outbox: createOutbox(db),
    audit: createAudit(db, headKept),
    nextIssueNo: async (audience) => {
      const { rows } = await sql<{ number: number }>`
        INSERT INTO issues (audience, number) VALUES (${audience}, 1)
        ON CONFLICT (audience) DO UPDATE SET number = issues.number + 1 RETURNING number`.execute(
        db,
      );
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
