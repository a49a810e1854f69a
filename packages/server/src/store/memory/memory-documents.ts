// A noun as rows in memory, with the same columns it is looked up by in a database. What a
// table is made of is a value: a transaction makes a new one, which nobody sees before it commits.

import { Failure } from "@exclave/core";
import type { z } from "zod";
import type { Page, PageOf } from "../store.ts";
import { type Columns, type IndexedDocuments, OPEN_STATUSES } from "../tables.ts";

export interface MemoryRow {
  readonly ordinal: number;
  readonly columns: Columns;
  readonly body: unknown;
}

export interface MemoryTable {
  get(key: string): MemoryRow | undefined;
  set(key: string, row: Omit<MemoryRow, "ordinal">): void;
  remove(key: string): boolean;
  /** Oldest first. */
  rows(): Iterable<MemoryRow>;
}

export function createMemoryDocuments<Row>(
  table: MemoryTable,
  schema: z.ZodType<Row>,
  columnsOf: (row: Row) => { readonly key: string } & Columns,
  { isTrusted = false }: { readonly isTrusted?: boolean } = {},
): IndexedDocuments<Row> {
  const read = ({ body }: MemoryRow): Row => body as Row;

  return {
    async get(key) {
      const row = table.get(key);
      return row && read(row);
    },
    async put(row) {
      const { key, ...columns } = columnsOf(row);
      table.set(key, { columns, body: isTrusted ? row : schema.parse(row) });
    },
    async remove(key) {
      return table.remove(key);
    },
    list: async (page, filter = {}) => pageOf(matching(filter), page, read),
    oldest: async (page) => pageAfter([...table.rows()], page, read),
    keys: async (page) =>
      pageAfter([...table.rows()], page, ({ body }) => columnsOf(body as Row).key),
    all: async () => Array.from(table.rows(), read),
    where: async (filter) => matching(filter).map(read),
    whereOpen: async (filter) => matching({ ...filter, state: OPEN_STATUSES }).map(read),
    count: async (filter) => matching(filter).length,
    async first(filter) {
      const row = matching(filter).at(-1);
      return row && read(row);
    },
  };

  function matching(filter: Columns): MemoryRow[] {
    const names = Object.keys(filter).filter((name) => filter[name] !== undefined);
    const found: MemoryRow[] = [];
    for (const row of table.rows()) {
      if (names.every((name) => matches(row.columns[name], filter[name]))) found.push(row);
    }
    return found;
  }
}

function matches(there: Columns[string], wanted: Columns[string]): boolean {
  return Array.isArray(wanted) ? wanted.includes(there) : there === wanted;
}

function pageOf<Row>(
  rows: readonly MemoryRow[],
  { limit, cursor }: Page,
  read: (row: MemoryRow) => Row,
): PageOf<Row> {
  const before = cursor === undefined ? Infinity : Number(cursor);
  if (Number.isNaN(before)) throw new Failure("invalid", "the cursor is not one of ours");
  const older = rows.filter(({ ordinal }) => ordinal < before).reverse();
  const last = older.length > limit ? older[limit - 1] : undefined;
  return {
    items: older.slice(0, limit).map(read),
    next: last ? String(last.ordinal) : null,
  };
}

function pageAfter<Row>(
  rows: readonly MemoryRow[],
  { limit, cursor }: Page,
  read: (row: MemoryRow) => Row,
): PageOf<Row> {
  const after = Number(cursor ?? 0);
  if (Number.isNaN(after)) throw new Failure("invalid", "the cursor is not one of ours");
  const younger = rows.filter(({ ordinal }) => ordinal > after);
  const last = younger.length > limit ? younger[limit - 1] : undefined;
  return {
    items: younger.slice(0, limit).map(read),
    next: last ? String(last.ordinal) : null,
  };
}
