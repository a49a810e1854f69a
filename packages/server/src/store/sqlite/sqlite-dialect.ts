// Kysely over node:sqlite. One connection, handed to one user at a time: a query that came in
// between would otherwise become part of somebody else's transaction.

import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from "kysely";

export function createSqliteDialect(database: DatabaseSync): Dialect {
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => createDriver(database),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}

/** WAL and a sync at every commit: what was acknowledged survives a power cut. */
export function openDatabase(file: string): DatabaseSync {
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL");
  database.exec("PRAGMA synchronous = FULL");
  database.exec("PRAGMA foreign_keys = ON");
  database.exec("PRAGMA busy_timeout = 2000");
  return database;
}

function createDriver(database: DatabaseSync): Driver {
  const connection = createConnection(database);
  const turns = createTurns();

  return {
    async init() {},
    async acquireConnection() {
      await turns.take();
      return connection;
    },
    async beginTransaction() {
      await connection.executeQuery(CompiledQuery.raw("begin immediate"));
    },
    async commitTransaction() {
      await connection.executeQuery(CompiledQuery.raw("commit"));
    },
    async rollbackTransaction() {
      // A failed statement may already have ended the transaction.
      if (database.isTransaction) await connection.executeQuery(CompiledQuery.raw("rollback"));
    },
    async releaseConnection() {
      turns.give();
    },
    async destroy() {
      database.close();
    },
  };
}

function createConnection(database: DatabaseSync): DatabaseConnection {
  const statements = new Map<string, StatementSync>();

  return {
    async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
      const statement = prepared(sql);
      const values = parameters as readonly SQLInputValue[];
      if (statement.columns().length > 0) return { rows: statement.all(...values) as Row[] };
      const { changes } = statement.run(...values);
      return { rows: [], numAffectedRows: BigInt(changes) };
    },
    // oxlint-disable-next-line require-yield
    async *streamQuery() {
      throw new Error("nothing here streams rows");
    },
  };

  function prepared(sql: string): StatementSync {
    const known = statements.get(sql);
    if (known) return known;
    const statement = database.prepare(sql);
    statements.set(sql, statement);
    return statement;
  }
}

function createTurns(): { take(): Promise<void>; give(): void } {
  const waiting: (() => void)[] = [];
  let isTaken = false;

  return {
    async take() {
      if (isTaken) await new Promise<void>((resolve) => waiting.push(resolve));
      isTaken = true;
    },
    give() {
      const next = waiting.shift();
      if (next) next();
      else isTaken = false;
    },
  };
}
