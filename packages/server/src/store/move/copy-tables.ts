// Everything a SQLite store holds, copied into a PostgreSQL one within its transaction: the tables as they are, in
// the order they were written, with the numbers that were ever given out. Knows no noun, so that a new one is copied too.

import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import { Failure } from "@exclave/core";
import { type Kysely, sql } from "kysely";

const BATCH_ROWS_MAX = 500;
const BATCH_CHARACTERS_MAX = 4 * 1024 * 1024;

export interface CopiedTable {
  readonly name: string;
  readonly rows: number;
}

interface Table {
  readonly name: string;
  readonly columns: readonly Column[];
}

interface Column {
  readonly name: string;
  readonly type: string;
  readonly isNumbered: boolean;
}

/** Of PostgreSQL alone: its own version, which servers are there, and what waits for its place in the record. */
const OF_POSTGRES = ["migrations", "turn", "audit_waiting", "servers"];

export async function copyTables<Tables>(
  from: DatabaseSync,
  to: Kysely<Tables>,
  onTable: (table: CopiedTable) => void = () => undefined,
): Promise<CopiedTable[]> {
  const tables = await tablesOf(to);
  refuseDifference(tablesOfFile(from), tables);
  const copied: CopiedTable[] = [];
  for (const table of tables) {
    const one = { name: table.name, rows: await copyTable(from, to, table) };
    copied.push(one);
    onTable(one);
  }
  return copied;
}

async function copyTable<Tables>(
  from: DatabaseSync,
  to: Kysely<Tables>,
  { name, columns }: Table,
): Promise<number> {
  let rows = 0;
  for (const batch of batchesOf(from, name)) {
    const lists = columns.map((column) => {
      const values = batch.map((row) => row[column.name] ?? null);
      return sql`${values}::${sql.raw(column.type)}[]`;
    });
    const names = sql.join(columns.map((column) => sql.ref(column.name)));
    await sql`INSERT INTO ${sql.table(name)} (${names}) OVERRIDING SYSTEM VALUE
      SELECT * FROM unnest(${sql.join(lists)})`.execute(to);
    rows += batch.length;
  }
  const counted = await sql<{ rows: number }>`
    SELECT count(*) AS rows FROM ${sql.table(name)}`.execute(to);
  if (counted.rows[0]?.rows !== rows) {
    throw new Failure("bug", `of ${rows} rows of ${name} ${counted.rows[0]?.rows} arrived`);
  }
  for (const column of columns.filter(({ isNumbered }) => isNumbered)) {
    // Numbers are never given twice, also those of rows that are gone.
    const last = lastNumber(from, name);
    await sql`SELECT setval(pg_get_serial_sequence(${name}, ${column.name}),
      ${Math.max(last, 1)}::bigint, ${last > 0})`.execute(to);
  }
  return rows;
}

function* batchesOf(
  from: DatabaseSync,
  table: string,
): Generator<Record<string, SQLOutputValue>[]> {
  let batch: Record<string, SQLOutputValue>[] = [];
  let characters = 0;
  for (const row of from.prepare(`SELECT * FROM ${table} ORDER BY rowid`).iterate()) {
    batch.push(row);
    for (const value of Object.values(row)) characters += String(value).length;
    if (batch.length < BATCH_ROWS_MAX && characters < BATCH_CHARACTERS_MAX) continue;
    yield batch;
    batch = [];
    characters = 0;
  }
  if (batch.length > 0) yield batch;
}

function lastNumber(from: DatabaseSync, table: string): number {
  const row = from.prepare("SELECT seq FROM sqlite_sequence WHERE name = ?").get(table);
  return Number(row?.["seq"] ?? 0);
}

async function tablesOf<Tables>(db: Kysely<Tables>): Promise<Table[]> {
  const { rows } = await sql<{ name: string; column: string; type: string; numbered: string }>`
    SELECT table_name AS name, column_name AS column, data_type AS type, is_identity AS numbered
    FROM information_schema.columns WHERE table_schema = current_schema()
    ORDER BY table_name, ordinal_position`.execute(db);
  const names = [...new Set(rows.map(({ name }) => name))];
  return names
    .filter((name) => !OF_POSTGRES.includes(name))
    .map((name) => ({
      name,
      columns: rows
        .filter((row) => row.name === name)
        .map(({ column, type, numbered }) => ({
          name: column,
          type,
          isNumbered: numbered === "YES",
        })),
    }));
}

function tablesOfFile(from: DatabaseSync): Map<string, string[]> {
  const tables = from
    .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .all()
    .map(({ name }) => String(name));
  return new Map(
    tables.map((name) => [
      name,
      from
        .prepare("SELECT name FROM pragma_table_info(?)")
        .all(name)
        .map((column) => String(column["name"])),
    ]),
  );
}

/** Two sets of migrations lead to the same tables; what one of them forgot would be lost here. */
function refuseDifference(from: ReadonlyMap<string, string[]>, to: readonly Table[]): void {
  const wanted = new Map(to.map(({ name, columns }) => [name, columns.map((one) => one.name)]));
  for (const name of new Set([...from.keys(), ...wanted.keys()])) {
    const [here, there] = [from.get(name) ?? [], wanted.get(name) ?? []];
    if (here.toSorted().join() === there.toSorted().join()) continue;
    throw new Failure(
      "bug",
      `the table ${name} has the columns ${here.join(", ")} in SQLite and ${there.join(", ")} in PostgreSQL`,
    );
  }
}
