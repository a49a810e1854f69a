// A PostgreSQL database for an end-to-end test, on a machine that has PostgreSQL.

import type { TestContext } from "node:test";
import {
  findPostgres,
  type PostgresCluster,
  startPostgres,
} from "@exclave/server/testing/postgres";

const programs = findPostgres();

/** Why tests that need one do not run here. */
export const skip =
  programs === undefined && "no postgres on this machine (apt-get install postgresql)";

export interface TestDatabase {
  readonly cluster: PostgresCluster;
  /** Of an empty database. */
  readonly url: string;
}

/** Gone with the test. */
export async function createDatabase(t: TestContext): Promise<TestDatabase> {
  const cluster = await startPostgres(programs ?? "");
  t.after(() => cluster.stop());
  return { cluster, url: await cluster.create() };
}
