// The store's contract on a real PostgreSQL, and what only a database in another process can do to it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { verifyChain } from "@exclave/core";
import { Kysely, sql } from "kysely";
import { Client } from "pg";
import { describeStore } from "../../testing/describe-store.ts";
import {
  findPostgres,
  type PostgresCluster,
  startPostgres,
} from "../../testing/postgres-cluster.ts";
import { AT, CRM_ID, jobRow } from "../../testing/rows.ts";
import type { ChannelRow } from "../rows.ts";
import type { Store } from "../store.ts";
import { MIGRATIONS, migrate } from "./migrations.ts";
import { createPostgresDialect } from "./postgres-pool.ts";
import { openPostgresStore } from "./postgres-store.ts";

const programs = findPostgres();
const MEMBER = "00000000-0000-4000-8000-000000000000";
const ENTRY = { at: AT, actor: "a", action: "a", subject: "s", details: {} };
const CHANNEL: ChannelRow = {
  app: CRM_ID,
  appName: "crm",
  name: "stable",
  release: "0",
  movedAt: AT,
  askedAt: AT,
};
const cutAll = (cluster: PostgresCluster) =>
  cluster.run(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'exclave'",
  );

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
    store.transaction((tx) => tx.audit.append({ ...ENTRY, action }));

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

  test("a server whose place was taken away writes nothing until it has another", async (t) => {
    const { url } = await opened(t);
    let name = MEMBER;
    const store = await openPostgresStore(url, { member: () => name });
    t.after(() => store.close());
    const database = new URL(url).pathname.slice(1);
    const takePlace = (id: string) =>
      cluster.run(
        `INSERT INTO servers VALUES ('${id}', '1', 'd', NULL, now(), 1, now())`,
        database,
      );
    await takePlace(name);
    await append(store, "first");

    await cluster.run("DELETE FROM servers", database);
    await assert.rejects(append(store, "late"), { code: "unavailable" });
    name = MEMBER.replace("0", "1");
    await takePlace(name);
    await append(store, "next");

    const actions = (await store.read.audit.after(0, 10)).map(({ action }) => action);
    assert.deepEqual(actions, ["first", "next"]);
  });

  test("a step that a running server can live with leaves it alone; one that it cannot fences it off", async (t) => {
    const { url, store } = await opened(t);
    const db = new Kysely<unknown>({ dialect: createPostgresDialect(url) });
    t.after(() => db.destroy());

    await migrate(db, [...MIGRATIONS, ["ALTER TABLE installs ADD COLUMN later TEXT"]]);
    await append(store, "beside the newer one");

    await migrate(db, [...MIGRATIONS, [], ["UPDATE turn SET epoch = epoch + 1"]]);
    await assert.rejects(append(store, "late"), /cannot be beside/);
    const actions = (await store.read.audit.after(0, 10)).map(({ action }) => action);
    assert.deepEqual(actions, ["beside the newer one"]);
  });

  test("two servers write side by side: nothing is lost, and the record is one chain", async (t) => {
    const { url, store } = await opened(t);
    const second = { store: await openPostgresStore(url) };
    t.after(() => second.store.close());
    const add = (one: Store, n: number) =>
      one.transaction(async (tx) => {
        const before = Number((await tx.channels.of(CRM_ID, "stable"))?.release ?? "0");
        await tx.channels.put({ ...CHANNEL, release: String(before + 1) });
        await tx.audit.append({ ...ENTRY, action: `add.${n}` });
      });

    await Promise.all(Array.from({ length: 40 }, (_, n) => add(n % 2 ? store : second.store, n)));

    assert.equal((await store.read.channels.of(CRM_ID, "stable"))?.release, "40");
    const records = await second.store.read.audit.after(0, 100);
    assert.equal(new Set(records.map(({ action }) => action)).size, 40);
    const verdict = verifyChain(records, { checkpoints: [await store.read.audit.head()] });
    assert.equal(verdict.kind, "ok", JSON.stringify(verdict));
  });

  test("a transaction does not wait for another that is about something else", async (t) => {
    const { store } = await opened(t);
    const held = Promise.withResolvers<void>();
    const slow = store.transaction(async (tx) => {
      await tx.channels.put({ ...CHANNEL, name: "slow" });
      await tx.audit.append({ ...ENTRY, action: "slow" });
      await held.promise;
    });

    await append(store, "quick");
    held.resolve();
    await slow;

    const actions = (await store.read.audit.after(0, 10)).map(({ action }) => action);
    assert.deepEqual(actions.toSorted(), ["quick", "slow"]);
  });

  test("one that needs what others keep changing has its turn in the end", async (t) => {
    const { store } = await opened(t);
    let runs = 0;
    const write = (one: Store, release: string) =>
      one.transaction((tx) => tx.channels.put({ ...CHANNEL, release }));

    await store.transaction(async (tx) => {
      runs++;
      const before = await tx.channels.of(CRM_ID, "stable");
      // Somebody is always quicker, unless nobody else may work.
      if (runs <= 4) await write(store, `${runs}`);
      await tx.channels.put({ ...CHANNEL, release: `${before?.release ?? "none"}+` });
    });

    assert.equal(runs, 5);
    assert.equal((await store.read.channels.of(CRM_ID, "stable"))?.release, "4+");
  });

  test("a killed connection undoes its transaction, all of it, and the work runs again", async (t) => {
    const { store } = await opened(t);
    let runs = 0;

    await store.transaction(async (tx) => {
      runs++;
      await tx.audit.append({ ...ENTRY, action: `run.${runs}` });
      if (runs === 1) await cutAll(cluster);
      await tx.jobs.get("x");
    });

    assert.equal(runs, 2);
    const actions = (await store.read.audit.after(0, 10)).map(({ action }) => action);
    assert.deepEqual(actions, ["run.2"]);
  });

  test("connections that are killed again and again lose nothing and do nothing twice", async (t) => {
    const { store } = await opened(t);
    const actions = Array.from({ length: 60 }, (_, n) => `a${n}`);
    const over = new AbortController();
    const cutting = (async () => {
      // Ever longer apart, so that a slow machine gets something done in between.
      for (let pauseMs = 100; !over.signal.aborted; pauseMs *= 1.2) {
        await cutAll(cluster);
        await sleep(pauseMs);
      }
    })();

    // Each is one that may be retried by its caller, and is not: what fails here must not be there.
    const ends = await Promise.allSettled(
      actions.map(async (action, n) => {
        await sleep(n * 15);
        await append(store, action);
      }),
    );
    over.abort();
    await cutting;

    const kept = (await store.read.audit.after(0, 1_000)).map(({ action }) => action);
    const told = actions.filter((_, n) => ends[n]?.status === "fulfilled");
    assert.deepEqual(kept.toSorted(), told.toSorted());
    assert.ok(told.length > 0);
  });

  test("more transactions at once than connections wait, and none of them fails", async (t) => {
    const { store } = await opened(t);

    await Promise.all(
      Array.from({ length: 200 }, (_, n) =>
        store.transaction(async (tx) => {
          await tx.audit.append({ ...ENTRY, action: `a${n}` });
          // A read of its own while it holds a connection.
          await store.read.jobs.get("x");
        }),
      ),
    );

    assert.equal((await store.read.audit.head()).size, 200);
  });

  test("a database that has no connection left says so, and works when it has", async (t) => {
    const { url, store } = await opened(t);
    const taken: Client[] = [];
    for (;;) {
      const client = new Client({ connectionString: url });
      const isIn = await client.connect().then(
        () => true,
        () => false,
      );
      if (!isIn) break;
      client.on("error", () => undefined);
      taken.push(client);
    }
    const failing = openPostgresStore(url).then((one) => one.close());
    await assert.rejects(failing, { code: "unavailable" });

    await Promise.all(taken.map((client) => client.end()));
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
