// What a query costs with a year of history, by the rows it touches instead of by a clock.

import assert from "node:assert/strict";
import { join } from "node:path";
import { DatabaseSync, StatementSync } from "node:sqlite";
import { test } from "node:test";
import { InstallId, JobId } from "@exclave/core";
import { ACME, AT, jobRow } from "../../testing/rows.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import type { JobRow } from "../rows.ts";
import { OPEN_JOBS } from "../sql/database.ts";
import { openSqliteStore } from "./sqlite-store.ts";

const OTHER = InstallId.parse("iotheraaaaaaaaaaa");

test("open jobs are found by an index that leaves the ended ones out", async (t) => {
  const file = join(await temporaryDirectory(t), "exclave.db");
  await openSqliteStore(file).close();
  const database = new DatabaseSync(file);
  t.after(() => database.close());

  for (const column of ["audience", "install"]) {
    const sql = `SELECT ordinal, body FROM jobs WHERE ${column} = ? AND ${OPEN_JOBS} ORDER BY ordinal`;
    const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all();

    const steps = plan.map((row) => String(row["detail"]));
    assert.deepEqual(steps, [`SEARCH jobs USING INDEX jobs_open_${column} (${column}=?)`]);
  }
});

test("the open jobs of an install are read without its ended ones, and without other installs'", async (t) => {
  const file = join(await temporaryDirectory(t), "exclave.db");
  const before = openSqliteStore(file);
  const done = { status: "succeeded", since: AT } as const;
  await before.transaction(async (tx) => {
    for (let n = 0; n < 300; n++) {
      const install = n % 3 === 0 ? ACME : InstallId.parse(`i${numbered(n).slice(1)}`);
      const audience = n % 2 === 0 ? "setup" : install;
      await tx.jobs.put(jobRow({ id: numbered(n), install, audience, state: done }));
    }
    await tx.jobs.put(jobRow({ id: numbered(900), install: ACME, audience: "setup" }));
    await tx.jobs.put(jobRow({ id: numbered(901), install: ACME, audience: ACME }));
    await tx.jobs.put(jobRow({ id: numbered(902), install: OTHER, audience: "setup" }));
  });
  await before.close();
  const store = openSqliteStore(file);
  t.after(() => store.close());
  const parse = t.mock.method(JSON, "parse");

  const open = await store.read.jobs.openOfInstall(ACME);

  assert.deepEqual(
    open.map(({ id }) => id),
    [numbered(900), numbered(901)],
  );
  assert.equal(parse.mock.callCount(), 2, "rows that were read");
});

test("entries of the record are appended without reading where it ends each time", async (t) => {
  const store = openSqliteStore(join(await temporaryDirectory(t), "exclave.db"));
  t.after(() => store.close());
  const entry = { at: AT, actor: "test", action: "act", subject: "thing", details: {} };
  const all = t.mock.method(StatementSync.prototype, "all");

  for (let n = 0; n < 5; n++) await store.transaction((tx) => tx.audit.append(entry));

  assert.equal(all.mock.callCount(), 1, "queries");
});

function numbered(n: number): JobRow["id"] {
  const letters = String(n)
    .padStart(4, "0")
    .replaceAll(/\d/g, (digit) => "abcdefghij"[+digit]!);
  return JobId.parse(`j${letters.padStart(16, "a")}`);
}
