// The store in a PostgreSQL database. Transactions run side by side and end as if they had come one after the other,
// also those of several servers.

import { Failure } from "@exclave/core";
import { Kysely, sql } from "kysely";
import type { Database } from "../sql/database.ts";
import { newShared, sqlTables } from "../sql/sql-tables.ts";
import type { Store, Tables } from "../store.ts";
import { migrate } from "./migrations.ts";
import { createPostgresDialect, type PostgresDialectOptions } from "./postgres-pool.ts";
import { createSealedAudit, createSealer, createWaitingAudit } from "./sealed-audit.ts";
import { createTransactions, type Fence } from "./transactions.ts";

const READERS_MAX = 6;

export type PostgresStoreOptions = Pick<Fence, "member">;

export async function openPostgresStore(
  url: string,
  { member }: PostgresStoreOptions = {},
): Promise<Store> {
  const connect = (options: PostgresDialectOptions = {}) =>
    new Kysely<Database>({ dialect: createPostgresDialect(url, options) });
  const writer = connect();
  try {
    await migrate(writer);
    const fence = { epoch: await epochOf(writer), member };
    const reader = connect({ connectionsMax: READERS_MAX, isReader: true });
    return createStore(writer, reader, fence);
  } catch (reason) {
    await writer.destroy();
    throw reason;
  }
}

async function epochOf(db: Kysely<Database>): Promise<number> {
  const { rows } = await sql<{ epoch: number }>`SELECT epoch FROM turn`.execute(db);
  const [row] = rows;
  if (!row) throw new Failure("conflict", "the database lacks the row that servers begin with");
  return row.epoch;
}

function createStore(writer: Kysely<Database>, reader: Kysely<Database>, fence: Fence): Store {
  const transactions = createTransactions(writer, fence);
  const sealer = createSealer(writer);
  const shared = newShared();

  return {
    read: {
      ...sqlTables(reader, { shared }),
      audit: createSealedAudit(reader, () => sealer.seal()),
    },
    async transaction<Result>(work: (tx: Tables) => Promise<Result>): Promise<Result> {
      let hasAppended = false;
      const result = await transactions.run((connection) => {
        const audit = createWaitingAudit(connection, () => (hasAppended = true));
        return work({ ...sqlTables(connection, { shared }), audit });
      });
      if (hasAppended) sealer.sealSoon();
      return result;
    },
    async close() {
      await sealer.stop();
      await Promise.all([writer.destroy(), reader.destroy()]);
    },
  };
}
