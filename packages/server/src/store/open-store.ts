// The store a server begins with: the file in its data directory, or the PostgreSQL database it was told of.

import { existsSync } from "node:fs";
import { chooseDatabase, type DatabaseFacts, refuseForgotten } from "./choose-database.ts";
import { MOVED_SUFFIX } from "./move/move-to-postgres.ts";
import { openPostgresStore, type PostgresStoreOptions } from "./postgres/postgres-store.ts";
import { openSqliteStore } from "./sqlite/sqlite-store.ts";
import type { Store } from "./store.ts";

export async function openStore(
  file: string,
  url: string | undefined,
  options: PostgresStoreOptions = {},
): Promise<Store> {
  const facts: DatabaseFacts = {
    hasUrl: url !== undefined,
    hasFile: existsSync(file),
    wasMoved: existsSync(`${file}${MOVED_SUFFIX}`),
  };
  if (chooseDatabase(facts) === "sqlite" || url === undefined) return openSqliteStore(file);
  const store = await openPostgresStore(url, options);
  try {
    refuseForgotten(facts, (await store.read.audit.head()).size === 0);
    return store;
  } catch (reason) {
    await store.close();
    throw reason;
  }
}
