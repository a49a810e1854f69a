// A SQLite store moved to a real PostgreSQL: what arrives, what is refused, and a move that was cut short.

import assert from "node:assert/strict";
import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { after, before, type TestContext, test } from "node:test";
import { JobId } from "@exclave/core";
import {
  findPostgres,
  type PostgresCluster,
  startPostgres,
} from "../../testing/postgres-cluster.ts";
import { installRow, jobRow } from "../../testing/rows.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import { openPostgresStore } from "../postgres/postgres-store.ts";
import { openDatabase } from "../sqlite/sqlite-dialect.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import type { Store } from "../store.ts";
import { moveToPostgres } from "./move-to-postgres.ts";

const programs = findPostgres();

if (programs === undefined) {
  test(
    "a move to PostgreSQL",
    { skip: "no postgres on this machine (apt-get install postgresql)" },
    () => undefined,
  );
} else {
  let cluster: PostgresCluster;
  before(async () => {
    cluster = await startPostgres(programs);
  });
  after(() => cluster.stop());

  const append = (store: Store, action: string) =>
    store.transaction((tx) =>
      tx.audit.append({ at: 1 as never, actor: "a", action, subject: "s", details: { ü: "\0" } }),
    );
  const filled = async (t: TestContext, jobs = 3) => {
    const file = join(await temporaryDirectory(t), "exclave.db");
    const store = openSqliteStore(file);
    await store.transaction(async (tx) => {
      await tx.installs.put(installRow());
      for (let at = 0; at < jobs; at++) {
        await tx.jobs.put(jobRow({ id: numbered(at) }));
      }
    });
    await append(store, "first");
    await append(store, "second");
    await store.close();
    return file;
  };
  const numbered = (at: number) => {
    const digits = at.toString(8).padStart(16, "0");
    return JobId.parse(`j${digits.replaceAll(/\d/g, (digit) => "abcdefgh".charAt(Number(digit)))}`);
  };
  const move = (file: string, url: string) => moveToPostgres({ file, url, now: () => 5 });
  const reading = async <Result>(url: string, read: (store: Store) => Promise<Result>) => {
    const store = await openPostgresStore(url);
    try {
      return await read(store);
    } finally {
      await store.close();
    }
  };

  test("brings every row in its order, the audit chain as it was, and says so on record", async (t) => {
    const file = await filled(t, 1_203);
    const source = openSqliteStore(file);
    const [jobs, records] = [
      await source.read.jobs.list({ limit: 200 }),
      await source.read.audit.after(0, 10),
    ];
    await source.close();
    const url = await cluster.create();

    const moved = await move(file, url);

    await reading(url, async (store) => {
      assert.deepEqual(await store.read.jobs.list({ limit: 200 }), jobs);
      const arrived = await store.read.audit.after(0, 10);
      assert.deepEqual(arrived.slice(0, 2), records);
      assert.deepEqual(
        arrived.slice(2).map(({ action, seq }) => [action, seq]),
        [["database.moved", 3]],
      );
    });
    assert.deepEqual(moved, { rows: 1_206, records: 2, aside: `${file}.moved`, wasThere: false });
    assert.deepEqual([existsSync(file), existsSync(moved.aside)], [false, true]);
  });

  test("gives no number twice, also of rows that are gone", async (t) => {
    const file = await filled(t);
    const database = openDatabase(file);
    const { last } = database.prepare("SELECT max(ordinal) AS last FROM jobs").get() as {
      last: number;
    };
    database.exec("DELETE FROM jobs");
    database.close();
    const url = await cluster.create();
    await move(file, url);

    await reading(url, (store) => store.transaction((tx) => tx.jobs.put(jobRow())));

    const name = new URL(url).pathname.slice(1);
    const rows = await cluster.run("SELECT ordinal FROM jobs", name);
    assert.deepEqual(rows, [{ ordinal: String(last + 1) }]);
  });

  test("a database that somebody wrote to is refused, and the file stays", async (t) => {
    const file = await filled(t);
    const url = await cluster.create();
    await reading(url, (store) => append(store, "of another server"));

    await assert.rejects(move(file, url), /not empty.*give an empty one/);

    assert.ok(existsSync(file));
  });

  test("a move that fails midway leaves nothing there, and is made again", async (t) => {
    const file = await filled(t);
    const url = await cluster.create();
    const cut = () => {
      throw new Error("cut");
    };

    await assert.rejects(moveToPostgres({ file, url, now: () => 5, onTable: cut }), /cut/);

    assert.equal((await move(file, url)).wasThere, false);
  });

  test("a move that ended before the file was set aside is found done", async (t) => {
    const file = await filled(t);
    const url = await cluster.create();
    const { aside } = await move(file, url);
    renameSync(aside, file);
    await reading(url, (store) => append(store, "later"));

    const again = await move(file, url);

    assert.deepEqual(again, { rows: 0, records: 2, aside, wasThere: true });
    await assert.rejects(move(file, url), /moved already/);
    assert.equal(await reading(url, async (store) => (await store.read.audit.head()).size), 4);
  });

  test("a server that writes there meanwhile is fenced off", async (t) => {
    const file = await filled(t);
    const url = await cluster.create();
    const early = await openPostgresStore(url);
    t.after(() => early.close());

    await move(file, url);

    await assert.rejects(append(early, "late"), /cannot be beside/);
  });

  test("a table that one database lacks is named, and nothing is moved", async (t) => {
    const file = await filled(t);
    const database = openDatabase(file);
    database.exec("CREATE TABLE stray (key TEXT)");
    database.close();

    await assert.rejects(move(file, await cluster.create()), /the table stray/);

    assert.ok(existsSync(file));
  });
}
