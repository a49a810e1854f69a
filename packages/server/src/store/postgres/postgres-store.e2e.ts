// The store's contract on a real PostgreSQL, and what only a database in another process can do to it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Kysely, sql } from "kysely";
import { describeStore } from "../../testing/describe-store.ts";
import {
  findPostgres,
  type PostgresCluster,
  startPostgres,
} from "../../testing/postgres-cluster.ts";
import { jobRow } from "../../testing/rows.ts";
import type { Store } from "../store.ts";
import { MIGRATIONS, migrate } from "./migrations.ts";
import { createPostgresDialect } from "./postgres-pool.ts";
import { openPostgresStore } from "./postgres-store.ts";

const programs = findPostgres();

if (programs === undefined) {
  test(
    "PostgreSQL",
    { skip: "no postgres on this machine (apt-get install postgresql)" },
    () => undefined,
  );
} else {
  let cluster: PostgresCluster;
  before(async () => {
    cluster = await startPostgres(programs);
  });
  after(() => cluster.stop());

  const opened = async (t: { after(end: () => Promise<void>): void }, url?: string) => {
    const at = url ?? (await cluster.create());
    const store = await openPostgresStore(at);
    t.after(() => store.close().catch(() => undefined));
    return { url: at, store };
  };
  const append = (store: Store, action: string) =>
    store.transaction((tx) =>
      tx.audit.append({ at: 1 as never, actor: "a", action, subject: "s", details: {} }),
    );

  describeStore("postgres", async (t) => {
    const { url, store } = await opened(t);
    return {
      store,
      async reopen() {
        await store.close();
        return (await opened(t, url)).store;
      },
    };
  });

  test("a server that was replaced writes nothing more", async (t) => {
    const { url, store } = await opened(t);
    await append(store, "first");
    const second = await opened(t, url);

    await assert.rejects(append(store, "late"), /another server has taken over/);
    await append(second.store, "next");

    const actions = (await second.store.read.audit.after(0, 10)).map(({ action }) => action);
    assert.deepEqual(actions, ["first", "next"]);
  });

  test("a killed connection fails its transaction, all of it, and the next one works", async (t) => {
    const { store } = await opened(t);

    const cut = store.transaction(async (tx) => {
      await tx.jobs.put(jobRow());
      await cluster.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'exclave'",
      );
      await tx.jobs.get("x");
    });
    await assert.rejects(cut, { code: "unavailable" });

    assert.deepEqual((await store.read.jobs.find({ limit: 10 })).items, []);
    await append(store, "after");
    assert.equal((await store.read.audit.head()).size, 1);
  });

  test("a database that crashed keeps what was committed, and the store goes on by itself", async (t) => {
    const { store } = await opened(t);
    await append(store, "before");

    await cluster.crash();
    // What was pooled may be broken; each of them is noticed once.
    for (let n = 0; n < 20; n++) {
      const isBack = await append(store, "after").then(
        () => true,
        () => false,
      );
      if (isBack) break;
    }

    const actions = (await store.read.audit.after(0, 10)).map(({ action }) => action);
    assert.deepEqual(actions, ["before", "after"]);
  });

  test("a database of a newer version is left alone, and a failing step changes nothing", async (t) => {
    const url = await cluster.create();
    const db = new Kysely<unknown>({ dialect: createPostgresDialect(url) });
    t.after(() => db.destroy());
    await migrate(db, [["CREATE TABLE one (a INT)"]]);

    await assert.rejects(migrate(db, [[], ["CREATE TABLE two (a INT)", "CREATE nonsense"]]));
    const { rows } = await sql<{ name: string }>`
      SELECT tablename AS name FROM pg_tables WHERE tablename IN ('one', 'two')`.execute(db);
    assert.deepEqual(rows, [{ name: "one" }]);

    await sql`INSERT INTO migrations (version) VALUES (${MIGRATIONS.length + 1})`.execute(db);
    await assert.rejects(openPostgresStore(url), /of a newer version/);
  });

  test("open jobs are found by an index that leaves the ended ones out", async (t) => {
    const { url, store } = await opened(t);
    await store.transaction(async (tx) => {
      for (let n = 0; n < 300; n++) {
        const state = { status: n < 3 ? "queued" : "succeeded", since: 1 };
        await tx.jobs.put(
          jobRow({
            id: `j${n.toString(2).replaceAll("1", "b").replaceAll("0", "a").padStart(16, "a")}`,
            state,
          } as never),
        );
      }
    });
    const db = new Kysely<unknown>({ dialect: createPostgresDialect(url) });
    t.after(() => db.destroy());
    await sql`ANALYZE jobs`.execute(db);

    const { rows } = await sql<{ "QUERY PLAN": string }>`
      EXPLAIN SELECT body FROM jobs WHERE install = 'x'
      AND state IN ('queued', 'offered', 'accepted', 'running') ORDER BY ordinal`.execute(db);

    assert.match(JSON.stringify(rows), /jobs_open_install/);
  });
}

test("an address nobody answers at is a sentence without the address", async () => {
  const opening = openPostgresStore("postgres://somebody:not-a-real-word@127.0.0.1:1/none");

  await assert.rejects(opening, (reason: Error) => {
    assert.match(reason.message, /the database cannot be reached \(ECONNREFUSED\)/);
    assert.ok(!reason.message.includes("not-a-real-word"));
    return true;
  });
});
