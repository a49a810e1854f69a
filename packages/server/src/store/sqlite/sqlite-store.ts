// The store in one SQLite file.

import { Kysely } from "kysely";
import type { Database } from "../sql/database.ts";
import { sqlTables } from "../sql/sql-tables.ts";
import type { Store } from "../store.ts";
import { migrate } from "./migrations.ts";
import { createSqliteDialect, openDatabase } from "./sqlite-dialect.ts";

export function openSqliteStore(file: string): Store {
  const database = openDatabase(file);
  try {
    migrate(database);
  } catch (reason) {
    database.close();
    throw reason;
  }
  const db = new Kysely<Database>({ dialect: createSqliteDialect(database) });

  return {
    read: sqlTables(db),
    transaction: (work) => db.transaction().execute((tx) => work(sqlTables(tx))),
    close: () => db.destroy(),
  };
}
