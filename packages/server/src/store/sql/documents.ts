// A noun as rows of JSON with a key and the few columns it is looked up by.

import { Failure } from "@exclave/core";
import { type Kysely, sql } from "kysely";
import type { z } from "zod";
import type { Columns, IndexedDocuments, NounTable } from "../tables.ts";
import { type Database, OPEN_JOBS } from "./database.ts";

export function createDocuments<Row>(
  database: Kysely<Database>,
  table: NounTable,
  schema: z.ZodType<Row>,
  columnsOf: (row: Row) => { readonly key: string } & Columns,
): IndexedDocuments<Row> {
  // The columns differ by noun; this file alone writes and reads them, by the names given above.
  const db = database as unknown as Kysely<Record<NounTable, Record<string, unknown>>>;
  const read = (row: Record<string, unknown>): Row => schema.parse(JSON.parse(String(row["body"])));

  return {
    async get(key) {
      const row = await db
        .selectFrom(table)
        .select("body")
        .where("key", "=", key)
        .executeTakeFirst();
      return row && read(row);
    },
    async put(row) {
      const values = { ...columnsOf(row), body: JSON.stringify(schema.parse(row)) };
      const { key: _, ...changed } = values;
      await db
        .insertInto(table)
        .values(values)
        .onConflict((conflict) => conflict.column("key").doUpdateSet(changed))
        .execute();
    },
    async remove(key) {
      const { numDeletedRows } = await db
        .deleteFrom(table)
        .where("key", "=", key)
        .executeTakeFirstOrThrow();
      return numDeletedRows > 0n;
    },
    async list({ limit, cursor }, filter = {}) {
      let query = select(filter)
        .orderBy("ordinal", "desc")
        .limit(limit + 1);
      if (cursor !== undefined) query = query.where("ordinal", "<", ordinalOf(cursor));
      const rows = await query.execute();
      const last = rows.length > limit ? rows[limit - 1] : undefined;
      return { items: rows.slice(0, limit).map(read), next: last ? String(last["ordinal"]) : null };
    },
    async all() {
      return (await select({}).orderBy("ordinal").execute()).map(read);
    },
    async where(filter) {
      return (await select(filter).orderBy("ordinal").execute()).map(read);
    },
    async whereOpen(filter) {
      // In these very words: a partial index is found by nothing else.
      const open = select(filter).where(sql<boolean>`${sql.raw(OPEN_JOBS)}`);
      return (await open.orderBy("ordinal").execute()).map(read);
    },
    async first(filter) {
      const row = await select(filter).orderBy("ordinal", "desc").limit(1).executeTakeFirst();
      return row && read(row);
    },
    async count(filter) {
      const query = matching(filter).select((on) => on.fn.countAll().as("rows"));
      return Number((await query.executeTakeFirstOrThrow())["rows"]);
    },
  };

  function select(filter: Columns) {
    return matching(filter).select(["ordinal", "body"]);
  }

  function matching(filter: Columns) {
    let query = db.selectFrom(table);
    for (const [column, value] of Object.entries(filter)) {
      if (value === undefined) continue;
      query = Array.isArray(value)
        ? query.where(column, "in", value)
        : query.where(column, "=", value);
    }
    return query;
  }
}

function ordinalOf(cursor: string): number {
  const ordinal = Number(cursor);
  if (!Number.isSafeInteger(ordinal)) throw new Failure("invalid", "the cursor is not one of ours");
  return ordinal;
}
