// Kysely over one connection of node:sqlite. It knows of no transactions: whoever opened the connection says when one
// begins and ends.

import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { Failure } from "@exclave/core";
import { privateDatabase } from "@exclave/machine";
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from "kysely";

/** `choose` says which connection runs the next statement, where it is not always the one that is closed at the end. */
export function createSqliteDialect(
  database: DatabaseSync,
  choose: () => DatabaseSync = () => database,
): Dialect {
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => createDriver(database, choose),
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

function createDriver(database: DatabaseSync, choose: () => DatabaseSync): Driver {
  const connection = createConnection(choose);
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

function createConnection(choose: () => DatabaseSync): DatabaseConnection {
  const statementsOf = new WeakMap<DatabaseSync, Map<string, Prepared>>();

  return {
    async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
      const { statement, givesRows } = prepared(sql);
      const values = parameters as readonly SQLInputValue[];
      if (givesRows) return { rows: statement.all(...values) as Row[] };
      const { changes } = statement.run(...values);
      return { rows: [], numAffectedRows: BigInt(changes) };
    },
    // oxlint-disable-next-line require-yield
    async *streamQuery() {
      throw new Error("nothing here streams rows");
    },
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
