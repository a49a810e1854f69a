// Moves a server's memory from its SQLite file to an empty PostgreSQL database. All of it arrives or nothing does,
// and the file is set aside only afterwards: a move that was cut short is made again with the same command.

import { existsSync } from "node:fs";
import { rename } from "node:fs/promises";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { type AuditHead, EMPTY_CHAIN, Failure, Instant } from "@exclave/core";
import { syncDirectory } from "@exclave/machine";
import { Kysely, sql } from "kysely";
import { migrate as migratePostgres } from "../postgres/migrations.ts";
import { createPostgresDialect } from "../postgres/postgres-pool.ts";
import { sealWaiting } from "../postgres/sealed-audit.ts";
import { createAudit } from "../sql/audit.ts";
import type { Database } from "../sql/database.ts";
import { migrate as migrateSqlite } from "../sqlite/migrations.ts";
import { openDatabase } from "../sqlite/sqlite-dialect.ts";
import { type CopiedTable, copyTables } from "./copy-tables.ts";

export const MOVED_SUFFIX = ".moved";

export interface MoveOptions {
  /** The SQLite file of a data directory that nobody else uses meanwhile. */
  readonly file: string;
  readonly url: string;
  readonly now: () => number;
  readonly onTable?: (table: CopiedTable) => void;
}

export interface Move {
  readonly rows: number;
  /** How many records the audit chain had. */
  readonly records: number;
  /** Where the file lies now. */
  readonly aside: string;
  /** An earlier move had brought everything over, and was ended before it could say so. */
  readonly wasThere: boolean;
}

export async function moveToPostgres(options: MoveOptions): Promise<Move> {
  const { file, url } = options;
  const aside = `${file}${MOVED_SUFFIX}`;
  refuseWithoutFile(file, aside);
  const from = openDatabase(file);
  const to = new Kysely<Database>({ dialect: createPostgresDialect(url) });
  let moved: Omit<Move, "aside">;
  try {
    migrateSqlite(from);
    await migratePostgres(to);
    moved = await bringOver(from, to, options);
    // The whole of it in one file, without a log beside it.
    from.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    from.close();
    await to.destroy();
  }
  await rename(file, aside);
  // A file that came back after a power cut would be taken for this server's memory.
  await syncDirectory(dirname(file));
  return { ...moved, aside };
}

function refuseWithoutFile(file: string, aside: string): void {
  if (existsSync(file)) return;
  throw new Failure(
    "not_found",
    existsSync(aside)
      ? `it was moved already; what it was lies in ${aside}`
      : `there is no SQLite database at ${file}; say with --data which server is meant`,
  );
}

async function bringOver(
  from: DatabaseSync,
  to: Kysely<Database>,
  { now, onTable }: MoveOptions,
): Promise<Omit<Move, "aside">> {
  const head = headOfFile(from);
  return to.transaction().execute(async (tx) => {
    // Nobody else is at work here meanwhile, and a server that began with what was here before writes nothing more.
    await sql`LOCK TABLE turn IN ACCESS EXCLUSIVE MODE`.execute(tx);
    await sql`UPDATE turn SET epoch = epoch + 1`.execute(tx);
    await sealWaiting(tx);
    if ((await createAudit(tx).head()).size > 0) {
      if (!(await continues(tx, head))) refuseForeign();
      return { rows: 0, records: head.size, wasThere: true };
    }
    const copied = await copyTables(from, tx, onTable);
    const rows = copied.reduce((sum, table) => sum + table.rows, 0);
    await createAudit(tx).append({
      at: Instant.parse(now()),
      actor: "server",
      action: "database.moved",
      subject: "server",
      details: { from: "sqlite", to: "postgres", rows },
    });
    return { rows, records: head.size, wasThere: false };
  });
}

function headOfFile(from: DatabaseSync): AuditHead {
  const row = from.prepare("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").get();
  return row ? { size: Number(row["seq"]), head: String(row["hash"]) } : EMPTY_CHAIN;
}

/** The record there begins with the whole record here. */
async function continues(tx: Kysely<Database>, { size, head }: AuditHead): Promise<boolean> {
  if (size === 0) return false;
  const row = await tx
    .selectFrom("audit")
    .select("hash")
    .where("seq", "=", size)
    .executeTakeFirst();
  return row?.hash === head;
}

function refuseForeign(): never {
  throw new Failure(
    "conflict",
    "the PostgreSQL database is not empty: another server has written there; give an empty one",
  );
}
