// The store in one SQLite file: a connection that writes, in groups of transactions, and one that reads what is committed
// while such a group is open. Between groups reads go to the first, whose pages are in memory: the second has to read
// every page anew that was written since it last looked.

import { Kysely } from "kysely";
import type { KeptHead } from "../sql/audit.ts";
import type { Database } from "../sql/database.ts";
import { createRowCache } from "../sql/row-cache.ts";
import { newShared, sqlTables } from "../sql/sql-tables.ts";
import type { Store } from "../store.ts";
import { createGroupCommit } from "./group-commit.ts";
import { migrate } from "./migrations.ts";
import { createExecute, createSqliteDialect, openDatabase, openReader } from "./sqlite-dialect.ts";

export function openSqliteStore(file: string): Store {
  const database = openDatabase(file);
  try {
    migrate(database);
  } catch (reason) {
    database.close();
    throw reason;
  }
  const beside = openReader(file);
  const write = createExecute(() => database);
  const read = createExecute(() => (database.isTransaction ? beside : database));
  const writer = new Kysely<Database>({ dialect: createSqliteDialect(database, write) });
  const reader = new Kysely<Database>({ dialect: createSqliteDialect(beside, read) });
  const head: KeptHead = { current: undefined };
  const own = createRowCache();
  const shared = newShared();
  const tables = sqlTables(writer, { headKept: head, shared, execute: write, own });
  const forget = () => {
    head.current = undefined;
    own.clear();
  };
  const group = createGroupCommit(database, { onRollback: forget, onOthersWrite: forget });

  return {
    read: sqlTables(reader, { shared, execute: read }),
    transaction: (work) => group.transaction(() => work(tables)),
    async close() {
      await group.settled();
      await reader.destroy();
      await writer.destroy();
    },
  };
}
