// Kysely over one connection of node:sqlite. It knows of no transactions: whoever opened the connection says when one
// begins and ends.

import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { Failure } from "@exclave/core";
import { privateDatabase } from "@exclave/machine";
import {
  type DatabaseConnection,
  type Dialect,
  type Driver,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from "kysely";
import type { Execute } from "../sql/statements.ts";

/** `execute` runs the statements, on a connection that is not always the one that is closed at the end. */
export function createSqliteDialect(
  database: DatabaseSync,
  execute: Execute = createExecute(() => database),
): Dialect {
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => createDriver(database, execute),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}

/** WAL and a sync at every commit: what was acknowledged survives a power cut. */
export function openDatabase(file: string): DatabaseSync {
  const database = openFile(file);
  database.exec("PRAGMA journal_mode = WAL");
  database.exec("PRAGMA synchronous = FULL");
  database.exec("PRAGMA foreign_keys = ON");
  database.exec("PRAGMA busy_timeout = 2000");
  database.exec(`PRAGMA cache_size = -${CACHE_KIB}`);
  database.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
  return database;
}

/** Pages that are written often stay in memory: the tree of every index is among them. */
const CACHE_KIB = 32 * 1024;
/** Of 4 KiB: to move what is in the log to its place syncs twice, so it is not done for every few jobs. */
const CHECKPOINT_PAGES = 4_000;

/** Sees what is committed and nothing else, also while a transaction is under way on the other connection. */
export function openReader(file: string): DatabaseSync {
  const database = new DatabaseSync(file, { readOnly: true });
  database.exec("PRAGMA busy_timeout = 2000");
  return database;
}

/** SQLite says no more than that it cannot; the path's length is a reason it does not name. */
function openFile(file: string): DatabaseSync {
  try {
    if (file !== ":memory:") privateDatabase(file);
    return new DatabaseSync(file);
  } catch (cause) {
    const bytes = Buffer.byteLength(file);
    const remedy =
      bytes > PATH_BYTES_MAX
        ? `its path is ${bytes} bytes long, and at most ${PATH_BYTES_MAX} work; use a shorter directory`
        : "check that its directory can be written and that the disk has room";
    throw new Failure("conflict", `the database ${file} cannot be opened: ${remedy}`, { cause });
  }
}

/** SQLite's own limit is 512, with room for what it puts behind the name. */
const PATH_BYTES_MAX = 500;

function createDriver(database: DatabaseSync, execute: Execute): Driver {
  const connection = createConnection(execute);
  const noTransactions = async () => {
    throw new Failure("bug", "transactions of this database are made by its store");
  };

  return {
    async init() {},
    acquireConnection: async () => connection,
    beginTransaction: noTransactions,
    commitTransaction: noTransactions,
    rollbackTransaction: noTransactions,
    async releaseConnection() {},
    async destroy() {
      database.close();
    },
  };
}

interface Prepared {
  readonly statement: StatementSync;
  readonly givesRows: boolean;
}

function createConnection(execute: Execute): DatabaseConnection {
  return {
    executeQuery: async (query) => execute(query),
    // oxlint-disable-next-line require-yield
    async *streamQuery() {
      throw new Error("nothing here streams rows");
    },
  };
}

/** `choose` says which connection runs the next statement; each prepares a statement once. */
export function createExecute(choose: () => DatabaseSync): Execute {
  const statementsOf = new WeakMap<DatabaseSync, Map<string, Prepared>>();

  return ({ sql, parameters }) => {
    const { statement, givesRows } = prepared(sql);
    const values = parameters as readonly SQLInputValue[];
    if (givesRows) return { rows: statement.all(...values) as never[] };
    const { changes } = statement.run(...values);
    return { rows: [], numAffectedRows: BigInt(changes) };
  };

  function prepared(sql: string): Prepared {
    const database = choose();
    const statements = statementsOf.get(database) ?? new Map<string, Prepared>();
    const known = statements.get(sql);
    if (known) return known;
    statementsOf.set(database, statements);
    const statement = database.prepare(sql);
    // Asked once: describing the columns of a statement costs as much as running it.
    const fresh = { statement, givesRows: statement.columns().length > 0 };
    statements.set(sql, fresh);
    return fresh;
  }
}
