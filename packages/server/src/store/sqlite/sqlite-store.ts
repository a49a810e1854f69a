// The store in one SQLite file: a connection that writes, in groups of transactions, and one that reads what is committed
// while such a group is open. Between groups reads go to the first, whose pages are in memory: the second has to read
// every page anew that was written since it last looked.

import { Kysely } from "kysely";
import type { KeptHead } from "../sql/audit.ts";
import type { Database } from "../sql/database.ts";
import { newShared, sqlTables } from "../sql/sql-tables.ts";
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
  const beside = openReader(file);
  const reader = new Kysely<Database>({
    dialect: createSqliteDialect(beside, () => (database.isTransaction ? beside : database)),
  });
  const head: KeptHead = { current: undefined };
  const shared = newShared();
  const tables = sqlTables(writer, { headKept: head, shared });
  const group = createGroupCommit(database, {
    onRollback: () => {
      head.current = undefined;
    },
  });

  return {
    read: sqlTables(reader, { shared }),
    transaction: (work) => group.transaction(() => work(tables)),
    async close() {
      await group.settled();
      await reader.destroy();
      await writer.destroy();
    },
  };
}
