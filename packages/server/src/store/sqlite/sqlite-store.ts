// The store in one SQLite file: a connection that writes, in groups of transactions, and one that reads what is committed.

import { Kysely } from "kysely";
import type { KeptHead } from "../sql/audit.ts";
import type { Database } from "../sql/database.ts";
import { sqlTables } from "../sql/sql-tables.ts";
import type { Store } from "../store.ts";
import { createGroupCommit } from "./group-commit.ts";
import { migrate } from "./migrations.ts";
import { createSqliteDialect, openDatabase, openReader } from "./sqlite-dialect.ts";

export function openSqliteStore(file: string): Store {
  const database = openDatabase(file);
  try {
    migrate(database);
  } catch (reason) {
    database.close();
    throw reason;
  }
  const writer = new Kysely<Database>({ dialect: createSqliteDialect(database) });
  const reader = new Kysely<Database>({ dialect: createSqliteDialect(openReader(file)) });
  const head: KeptHead = { current: undefined };
  const tables = sqlTables(writer, head);
  const group = createGroupCommit(database, {
    onRollback: () => {
      head.current = undefined;
    },
  });

  return {
    read: sqlTables(reader),
    transaction: (work) => group.transaction(() => work(tables)),
    async close() {
      await group.settled();
      await reader.destroy();
      await writer.destroy();
    },
  };
}
