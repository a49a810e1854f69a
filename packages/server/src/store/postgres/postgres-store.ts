// The store in a PostgreSQL database. Transactions take turns at one row, which also says which server is the
// newest: one that was replaced and does not know it yet writes nothing more.

import { Failure } from "@exclave/core";
import { Kysely, sql } from "kysely";
import type { Database } from "../sql/database.ts";
import { newShared, sqlTables } from "../sql/sql-tables.ts";
import type { Store, Tables } from "../store.ts";
import { migrate } from "./migrations.ts";
import { createPostgresDialect } from "./postgres-pool.ts";

export async function openPostgresStore(url: string): Promise<Store> {
  const db = new Kysely<Database>({ dialect: createPostgresDialect(url) });
  try {
    await migrate(db);
    return createStore(db, await takeOver(db));
  } catch (reason) {
    await db.destroy();
    throw reason;
  }
}

function createStore(db: Kysely<Database>, epoch: number): Store {
  const shared = newShared();
  let last: Promise<unknown> = Promise.resolve();

  return {
    read: sqlTables(db, { shared }),
    transaction<Result>(work: (tx: Tables) => Promise<Result>): Promise<Result> {
      // In this process they wait here, so that those that wait hold no connections.
      const result = last.then(() => run(work));
      last = result.catch(() => undefined);
      return result;
    },
    close: () => db.destroy(),
  };

  function run<Result>(work: (tx: Tables) => Promise<Result>): Promise<Result> {
    return db.transaction().execute(async (tx) => {
      const { rows } = await sql<{ epoch: number }>`SELECT epoch FROM turn FOR UPDATE`.execute(tx);
      if (rows[0]?.epoch !== epoch) {
        throw new Failure(
          "conflict",
          "another server has taken over this database; stop this one, or that one and start this one again",
        );
      }
      return work(sqlTables(tx, { shared }));
    });
  }
}

async function takeOver(db: Kysely<Database>): Promise<number> {
  const { rows } = await sql<{ epoch: number }>`
    UPDATE turn SET epoch = epoch + 1 RETURNING epoch`.execute(db);
  const [row] = rows;
  if (!row) throw new Failure("conflict", "the database lacks the row that servers take turns at");
  return row.epoch;
}
