import assert from "node:assert/strict";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { describeStore } from "../../testing/describe-store.ts";
import { jobRow } from "../../testing/rows.ts";
import { digestNamed } from "../../testing/scripted-vendor.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import { MIGRATIONS, migrate } from "./migrations.ts";
import { openSqliteStore } from "./sqlite-store.ts";

const keys = { buildKey: digestNamed("build"), source: digestNamed("source") };

describeStore("sqlite", async (t) => {
  const file = join(await temporaryDirectory(t), "exclave.db");
  const stores = [openSqliteStore(file)];
  t.after(() => Promise.all(stores.map((store) => store.close())));
  const [store] = stores;
  assert.ok(store);
  return {
    store,
    async reopen() {
      await stores.pop()?.close();
      const again = openSqliteStore(file);
      stores.push(again);
      return again;
    },
  };
});

test("a database of a newer version is left alone", async (t) => {
  const file = join(await temporaryDirectory(t), "exclave.db");
  const database = new DatabaseSync(file);
  database.exec(`PRAGMA user_version = ${MIGRATIONS.length + 1}`);
  database.close();

  assert.throws(() => openSqliteStore(file), /of a newer version/);
});

test("a migration that fails leaves the database as it was", () => {
  const database = new DatabaseSync(":memory:");
  migrate(database, ["CREATE TABLE one (a)"]);

  assert.throws(() => migrate(database, ["", "CREATE TABLE two (a)", "CREATE nonsense"]));

  const tables = database.prepare("SELECT name FROM sqlite_master").all();
  assert.deepEqual(
    tables.map((row) => row["name"]),
    ["one"],
  );
  database.close();
});

test("a database from before installs had ids is refused with a sentence", () => {
  const database = new DatabaseSync(":memory:");
  migrate(database, MIGRATIONS.slice(0, 1));
  database.exec("INSERT INTO installs (key, body) VALUES ('acme', '{}')");

  assert.throws(() => migrate(database), /installs and apps had no ids/);
  database.close();
});

test("a job from before its purpose had that name keeps it", async (t) => {
  const file = join(await temporaryDirectory(t), "exclave.db");
  const { purpose, ...job } = jobRow({ purpose: { kind: "build", ...keys, name: "api" } });
  const before = new DatabaseSync(file);
  migrate(before, MIGRATIONS.slice(0, 6));
  const insert = before.prepare("INSERT INTO jobs (key, body) VALUES (?, ?)");
  insert.run(job.id, JSON.stringify({ ...job, about: purpose }));
  before.close();

  const store = openSqliteStore(file);
  t.after(() => store.close());

  assert.deepEqual((await store.read.jobs.get(job.id))?.purpose, purpose);
});

test("jobs of a component of one install are found without a walk through those of others", (t) => {
  const database = new DatabaseSync(":memory:");
  t.after(() => database.close());
  migrate(database);

  const plan = database
    .prepare(
      `EXPLAIN QUERY PLAN SELECT body FROM jobs WHERE install = 'a' AND component = 'api'
       ORDER BY ordinal DESC LIMIT 200`,
    )
    .all();

  assert.match(JSON.stringify(plan), /jobs_install_component \(install=\? AND component=\?\)/);
  assert.doesNotMatch(JSON.stringify(plan), /TEMP B-TREE/);
});

test("every commit is synced to disk", async (t) => {
  const directory = await temporaryDirectory(t);
  const { openDatabase } = await import("./sqlite-dialect.ts");
  const database = openDatabase(join(directory, "x.db"));
  t.after(() => database.close());

  const pragma = (name: string) => Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0];

  assert.equal(pragma("journal_mode"), "wal");
  assert.equal(pragma("synchronous"), 2);
});
