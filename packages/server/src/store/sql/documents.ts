// A noun as rows of JSON with a key and the few columns it is looked up by.

import { Failure } from "@exclave/core";
import { type Kysely, type SelectQueryBuilder, sql } from "kysely";
import type { z } from "zod";
import type { Page, PageOf } from "../store.ts";
import type { Columns, IndexedDocuments, NounOptions, NounTable } from "../tables.ts";
import { type Database, OPEN_JOBS } from "./database.ts";
import type { RowCache } from "./row-cache.ts";
import type { CompiledQueries, Statements } from "./statements.ts";

/** What the tables of one database share, whichever connection or transaction they are read over. */
export interface Shared {
  readonly compiled: CompiledQueries;
  readonly rows: RowCache;
}

/** How the tables of one connection or transaction reach the database, and what is known of its rows. */
export interface Reach {
  readonly statements: Statements;
  readonly rows: RowCache;
  /** Rows as the one connection that writes sees them: they are not asked for again. */
  readonly own?: RowCache | undefined;
}

interface Stored {
  readonly ordinal: number;
  readonly key: string;
  readonly body: string;
}

type Nouns = Record<NounTable, Record<string, unknown>>;
type Query = SelectQueryBuilder<Nouns, NounTable, Record<string, unknown>>;

export function createDocuments<Row>(
  database: Kysely<Database>,
  { statements, rows, own }: Reach,
  table: NounTable,
  schema: z.ZodType<Row>,
  columnsOf: (row: Row) => { readonly key: string } & Columns,
  { changing }: NounOptions = {},
): IndexedDocuments<Row> {
  // The columns differ by noun; this file alone writes and reads them, by the names given above.
  const db = database as unknown as Kysely<Nouns>;
  const { find, keys, count } = createFinder(db, statements, table);

  return {
    async get(key) {
      const name = `${table} ${key}`;
      const known = own?.latest(name);
      if (known !== undefined) return known as Row;
      const [stored] = await find("get", { key }, (query) => query);
      if (!stored) return undefined;
      const row = read(stored);
      own?.keep(name, stored.body, row);
      return row;
    },
    async put(row) {
      const { key, ...columns } = columnsOf(row);
      const body = JSON.stringify(row);
      const values = { key, ...columns, body };
      const changed = ["body", ...(changing ?? Object.keys(columns))];
      await statements.run(`${table} put`, Object.values(values), () =>
        db
          .insertInto(table)
          .values(values)
          .onConflict((conflict) =>
            conflict
              .column("key")
              .doUpdateSet((on) =>
                Object.fromEntries(changed.map((name) => [name, on.ref(`excluded.${name}`)])),
              ),
          ),
      );
      rows.keep(`${table} ${key}`, body, row);
      own?.keep(`${table} ${key}`, body, row);
    },
    async remove(key) {
      own?.drop(`${table} ${key}`);
      const { numAffectedRows = 0n } = await statements.run(`${table} remove`, [key], () =>
        db.deleteFrom(table).where("key", "=", key),
      );
      return numAffectedRows > 0n;
    },
    ...createPages(find, read),
    keys,
    async all() {
      return (await find("all", {}, (query) => query.orderBy("ordinal"))).map(read);
    },
    async where(filter) {
      return (await find("where", filter, (query) => query.orderBy("ordinal"))).map(read);
    },
    async whereOpen(filter) {
      // In these very words: a partial index is found by nothing else.
      const open = sql<boolean>`${sql.raw(OPEN_JOBS)}`;
      const found = await find("open", filter, (query) => query.where(open).orderBy("ordinal"));
      return found.map(read);
    },
    async first(filter) {
      const newest = (query: Query) => query.orderBy("ordinal", "desc").limit(1);
      const [row] = await find("first", filter, newest, [1]);
      return row && read(row);
    },
    count,
  };

  function read({ key, body }: Stored): Row {
    const name = `${table} ${key}`;
    const known = rows.get(name, body);
    if (known !== undefined) return known as Row;
    const row = schema.parse(JSON.parse(body));
    rows.keep(name, body, row);
    return row;
  }
}

interface Finder {
  /** `more` are the values that `refine` adds, in its order. */
  readonly find: (
    what: string,
    filter: Columns,
    refine: (query: Query) => Query,
    more?: readonly unknown[],
  ) => Promise<readonly Stored[]>;
  readonly keys: (page: Page) => Promise<PageOf<string>>;
  readonly count: (filter: Columns) => Promise<number>;
}

function createPages<Row>(
  find: Finder["find"],
  read: (stored: Stored) => Row,
): Pick<IndexedDocuments<Row>, "list" | "oldest"> {
  return {
    async list({ limit, cursor }, filter = {}) {
      const before = cursor === undefined ? [] : [ordinalOf(cursor)];
      const shape = cursor === undefined ? "newest" : "before";
      const most = limit + 1;
      const found = await find(
        shape,
        filter,
        (query) => {
          const [ordinal] = before;
          const older = ordinal === undefined ? query : query.where("ordinal", "<", ordinal);
          return older.orderBy("ordinal", "desc").limit(most);
        },
        [...before, most],
      );
      return pageOf(found, limit);
    },
    async oldest({ limit, cursor }) {
      const [after, most] = [cursor === undefined ? 0 : ordinalOf(cursor), limit + 1];
      const found = await find(
        "oldest",
        {},
        (query) => query.where("ordinal", ">", after).orderBy("ordinal").limit(most),
        [after, most],
      );
      return pageOf(found, limit);
    },
  };

  function pageOf(found: readonly Stored[], limit: number): PageOf<Row> {
    const last = found.length > limit ? found[limit - 1] : undefined;
    return { items: found.slice(0, limit).map(read), next: last ? String(last.ordinal) : null };
  }
}

function createFinder(db: Kysely<Nouns>, statements: Statements, table: NounTable): Finder {
  return {
    async find(what, filter, refine, more = []) {
      const given = Object.entries(filter).filter(([, value]) => value !== undefined);
      const names = given.map(([name, value]) =>
        Array.isArray(value) ? `${name}*${value.length}` : name,
      );
      const shape = `${table} ${what} ${names.join(" ")}`;
      const values = [...given.flatMap(([, value]) => value), ...more];
      const { rows } = await statements.run<Stored>(shape, values, () =>
        refine(matching(filter).select(["ordinal", "key", "body"])),
      );
      return rows;
    },
    async keys({ limit, cursor }) {
      const values = [cursor === undefined ? 0 : ordinalOf(cursor), limit + 1] as const;
      const { rows } = await statements.run<Omit<Stored, "body">>(`${table} keys`, values, () =>
        db
          .selectFrom(table)
          .select(["ordinal", "key"])
          .where("ordinal", ">", values[0])
          .orderBy("ordinal")
          .limit(values[1]),
      );
      const last = rows.length > limit ? rows[limit - 1] : undefined;
      const items = rows.slice(0, limit).map(({ key }) => key);
      return { items, next: last ? String(last.ordinal) : null };
    },
    async count(filter) {
      const query = matching(filter).select((on) => on.fn.countAll().as("rows"));
      return Number((await query.executeTakeFirstOrThrow())["rows"]);
    },
  };

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
