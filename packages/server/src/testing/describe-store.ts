// What every store promises, as tests. A store is done when it passes this suite; a promise that is
// not in here is not one the server may lean on.

import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { InstallId, verifyChain } from "@exclave/core";
import type { ChannelRow } from "../store/rows.ts";
import { channelKey, type Store } from "../store/store.ts";
import { ACME, AT, CRM_ID, installRow, jobId, jobRow } from "./rows.ts";

export interface StoreUnderTest {
  readonly store: Store;
  /** The same data in a new process's hands, as far as this can be had in one. */
  reopen(): Promise<Store>;
}

export function describeStore(
  name: string,
  create: (t: TestContext) => Promise<StoreUnderTest>,
): void {
  describe(`${name} keeps the store contract`, () => {
    test("gives back what was put, changed or removed, by key", async (t) => {
      const { store } = await create(t);
      await store.transaction((tx) => tx.channels.put(channel("stable", "r1")));
      await store.transaction((tx) => tx.channels.put(channel("stable", "r2")));

      assert.equal((await store.read.channels.of(CRM_ID, "stable"))?.release, "r2");
      assert.equal(await store.read.channels.of(CRM_ID, "beta"), undefined);
      const removed = await store.transaction((tx) =>
        tx.channels.remove(channelKey(CRM_ID, "stable")),
      );
      assert.equal(removed, true);
      assert.deepEqual(await store.read.channels.all(), []);
    });

    test("has a place for every noun", async (t) => {
      const { store } = await create(t);
      const nouns = Object.values(store.read).filter((noun) => "list" in noun);

      for (const noun of nouns) assert.deepEqual((await noun.list({ limit: 1 })).items, []);

      assert.ok(nouns.length > 10);
    });

    test("forgets a transaction that failed, all of it", async (t) => {
      const { store } = await create(t);

      const failing = store.transaction(async (tx) => {
        await tx.channels.put(channel("stable", "r1"));
        await tx.audit.append(entry("channel.moved"));
        await tx.nextIssueNo(ACME);
        throw new Error("no");
      });

      await assert.rejects(failing, /no/);
      assert.deepEqual(await store.read.channels.all(), []);
      assert.equal((await store.read.audit.head()).size, 0);
      assert.equal(await store.transaction((tx) => tx.nextIssueNo(ACME)), 1);
    });

    test("runs transactions one after the other", async (t) => {
      const { store } = await create(t);
      const add = () =>
        store.transaction(async (tx) => {
          const before = Number((await tx.channels.of(CRM_ID, "stable"))?.release ?? "0");
          await new Promise((resolve) => setImmediate(resolve));
          await tx.channels.put(channel("stable", String(before + 1)));
        });

      await Promise.all(Array.from({ length: 20 }, add));

      assert.equal((await store.read.channels.of(CRM_ID, "stable"))?.release, "20");
    });

    test("shows nobody what is not committed", async (t) => {
      const { store } = await create(t);
      const written = Promise.withResolvers<void>();
      const failing = store.transaction(async (tx) => {
        await tx.channels.put(channel("stable", "r1"));
        written.resolve();
        await new Promise((resolve) => setImmediate(resolve));
        throw new Error("no");
      });
      await written.promise;

      const [seen] = await Promise.allSettled([store.read.channels.of(CRM_ID, "stable"), failing]);

      assert.deepEqual(seen, { status: "fulfilled", value: undefined });
    });

    test("keeps what was committed when it is opened again", async (t) => {
      const under = await create(t);
      await under.store.transaction(async (tx) => {
        await tx.channels.put(channel("stable", "r1"));
        await tx.audit.append(entry("channel.moved"));
      });

      const store = await under.reopen();

      assert.equal((await store.read.channels.of(CRM_ID, "stable"))?.release, "r1");
      assert.equal((await store.read.audit.head()).size, 1);
    });

    test("pages through rows, oldest first, also while those before are taken away", async (t) => {
      const { store } = await create(t);
      await store.transaction(async (tx) => {
        for (let n = 0; n < 7; n++) await tx.channels.put(channel(`c${n}`, "r"));
      });

      const names: string[] = [];
      let cursor: string | undefined;
      do {
        const { items, next } = await store.read.channels.oldest({ limit: 3, cursor });
        names.push(...items.map((row) => row.name));
        await store.transaction(async (tx) => {
          for (const { app, name } of items) await tx.channels.remove(channelKey(app, name));
        });
        cursor = next ?? undefined;
      } while (cursor !== undefined);

      assert.deepEqual(names, ["c0", "c1", "c2", "c3", "c4", "c5", "c6"]);
      assert.deepEqual(await store.read.channels.all(), []);
      await assert.rejects(store.read.channels.oldest({ limit: 3, cursor: "x" }), /cursor/);
    });

    test("pages through the keys of rows, oldest first", async (t) => {
      const { store } = await create(t);
      await store.transaction(async (tx) => {
        for (let n = 0; n < 5; n++) await tx.channels.put(channel(`c${n}`, "r"));
      });
      const all = await store.read.channels.all();

      const first = await store.read.channels.keys({ limit: 3 });
      const second = await store.read.channels.keys({ limit: 3, cursor: first.next ?? "" });

      assert.equal(first.items.length, 3);
      assert.equal(second.next, null);
      const keys = [...first.items, ...second.items];
      assert.deepEqual(
        keys,
        all.map(({ app, name }) => channelKey(app, name)),
      );
    });

    test("pages through rows, newest first, none twice and none missing", async (t) => {
      const { store } = await create(t);
      await store.transaction(async (tx) => {
        for (let n = 0; n < 7; n++) await tx.channels.put(channel(`c${n}`, "r"));
      });

      const names: string[] = [];
      let cursor: string | undefined;
      do {
        const { items, next } = await store.read.channels.list({ limit: 3, cursor });
        names.push(...items.map((row) => row.name));
        cursor = next ?? undefined;
      } while (cursor !== undefined);

      assert.deepEqual(names, ["c6", "c5", "c4", "c3", "c2", "c1", "c0"]);
      await assert.rejects(store.read.channels.list({ limit: 3, cursor: "x" }), /cursor/);
    });

    test("finds jobs by what they are about, and those that are not over", async (t) => {
      const { store } = await create(t);
      await store.transaction(async (tx) => {
        await tx.jobs.put(jobRow({ id: id("a"), component: "api" }));
        await tx.jobs.put(jobRow({ id: id("b"), state: { status: "succeeded", since: AT } }));
        await tx.jobs.put(jobRow({ id: id("c"), audience: "build", install: null }));
        await tx.jobs.put(jobRow({ id: id("d"), audience: "setup" }));
      });

      const open = await store.read.jobs.open(ACME);
      const byComponent = await store.read.jobs.find({ limit: 10, component: "api" });
      const byState = await store.read.jobs.find({ limit: 10, state: "succeeded" });
      const byInstall = await store.read.jobs.find({ limit: 10, install: ACME });
      const openOfInstall = await store.read.jobs.openOfInstall(ACME);
      const byAudience = await store.read.jobs.find({ limit: 10, audience: "setup" });

      assert.deepEqual(
        open.map(({ id }) => id),
        [id("a")],
      );
      assert.deepEqual(
        byComponent.items.map((row) => row.id),
        [id("a")],
      );
      assert.deepEqual(
        byState.items.map((row) => row.id),
        [id("b")],
      );
      assert.deepEqual(
        byInstall.items.map((row) => row.id),
        [id("d"), id("b"), id("a")],
      );
      assert.deepEqual(
        openOfInstall.map((row) => row.id),
        [id("a"), id("d")],
      );
      assert.deepEqual(
        byAudience.items.map((row) => row.id),
        [id("d")],
      );
    });

    test("has one install of a name at a time, and tells those that had it apart", async (t) => {
      const { store } = await create(t);
      const later = InstallId.parse("iacmebbbbbbbbbbbb");
      await store.transaction((tx) => tx.installs.put(installRow()));

      const second = store.transaction((tx) => tx.installs.put(installRow({ id: later })));
      await assert.rejects(second);
      await store.transaction((tx) => tx.installs.remove(ACME));
      await store.transaction((tx) => tx.installs.put(installRow({ id: later })));

      assert.equal((await store.read.installs.byName("acme"))?.id, later);
      assert.equal(await store.read.installs.get(ACME), undefined);
    });

    test("hands out commands in order, until they are acknowledged or taken back", async (t) => {
      const { store } = await create(t);
      const cancel = (name: string) =>
        ({ type: "job_cancel", job: id(name), attempt: 1, graceMs: 0 }) as const;
      await store.transaction(async (tx) => {
        for (const name of ["a", "b", "c"]) await tx.outbox.add(ACME, cancel(name));
        await tx.outbox.add("setup", cancel("d"));
        await tx.outbox.withdraw(id("b"));
      });
      const waiting = await store.read.outbox.waiting(ACME, 10);
      assert.deepEqual(
        waiting.map((row) => row.job),
        [id("a"), id("c")],
      );

      await store.transaction(async (tx) => {
        for (const [index, row] of waiting.entries()) await tx.outbox.assign(row.id, index + 1);
        // Too late: it has a number, so it may be on its way.
        await tx.outbox.withdraw(id("a"));
      });
      assert.deepEqual(
        (await store.read.outbox.sent(ACME)).map(({ seq }) => seq),
        [1, 2],
      );

      await store.transaction((tx) => tx.outbox.trim(ACME, 1));
      assert.deepEqual(
        (await store.read.outbox.sent(ACME)).map((row) => row.job),
        [id("c")],
      );
      assert.equal((await store.read.outbox.waiting("setup", 10)).length, 1);
    });

    test("puts a command in the place of another, under its number", async (t) => {
      const { store } = await create(t);
      const cancel = { type: "job_cancel", job: id("b"), attempt: 2, graceMs: 1 } as const;
      await store.transaction(async (tx) => {
        await tx.outbox.add("build", { ...cancel, job: id("a") });
        const [row] = await tx.outbox.waiting("build", 1);
        await tx.outbox.assign(row?.id ?? 0, 7);
        await tx.outbox.replace(row?.id ?? 0, cancel);
      });

      const sent = await store.read.outbox.sent("build");

      assert.deepEqual(
        sent.map(({ seq, job, body }) => ({ seq, job, body })),
        [{ seq: 7, job: cancel.job, body: cancel }],
      );
    });

    test("numbers manifests per audience, rising by one", async (t) => {
      const { store } = await create(t);

      const numbers = await store.transaction(async (tx) => [
        await tx.nextIssueNo(ACME),
        await tx.nextIssueNo(ACME),
        await tx.nextIssueNo("setup"),
      ]);

      assert.deepEqual(numbers, [1, 2, 1]);
    });

    test("numbers above what it was told, and never lower than before", async (t) => {
      const { store } = await create(t);

      const numbers = await store.transaction(async (tx) => [
        await tx.raiseIssueNo(ACME, 7),
        await tx.nextIssueNo(ACME),
        await tx.raiseIssueNo(ACME, 3),
        await tx.nextIssueNo(ACME),
        await tx.nextIssueNo("setup"),
      ]);

      assert.deepEqual(numbers, [0, 8, 8, 9, 1]);
    });

    test("chains on after a transaction that failed, whatever that one had appended", async (t) => {
      const { store } = await create(t);
      const append = (action: string, fails = false) =>
        store.transaction(async (tx) => {
          await tx.audit.append(entry(action));
          if (fails) throw new Error("no");
        });

      const ends = await Promise.allSettled([append("a"), append("b", true), append("c")]);
      await append("d");

      assert.equal(ends[1]?.status, "rejected");
      const records = await store.read.audit.after(0, 10);
      const actions = records.map(({ action }) => action);
      // Which of two that came at once is first is nobody's to say.
      assert.deepEqual([...actions.slice(0, 2).toSorted(), ...actions.slice(2)], ["a", "c", "d"]);
      const head = await store.read.audit.head();
      assert.deepEqual(verifyChain(records, { checkpoints: [head] }), { kind: "ok", ...head });
    });

    test("chains audit records, also those of transactions that came at once", async (t) => {
      const { store } = await create(t);
      const actions = Array.from({ length: 10 }, (_, n) => `act.${n}`);

      await Promise.all(
        actions.map((action) => store.transaction((tx) => tx.audit.append(entry(action)))),
      );

      const records = await store.read.audit.after(0, 100);
      const head = await store.read.audit.head();
      assert.deepEqual(verifyChain(records, { checkpoints: [head] }), { kind: "ok", ...head });
      assert.equal(head.size, 10);
      assert.deepEqual(
        (await store.read.audit.newest(2)).map(({ seq }) => seq),
        [10, 9],
      );
      assert.deepEqual(
        (await store.read.audit.newest(2, { subject: "thing", before: 9 })).map(({ seq }) => seq),
        [8, 7],
      );
      assert.equal((await store.read.audit.after(0, 100, "nobody")).length, 0);
    });
  });
}

const id = jobId;

function channel(name: string, release: string): ChannelRow {
  return { app: CRM_ID, appName: "crm", name, release, movedAt: AT, askedAt: AT };
}

function entry(action: string) {
  return { at: AT, actor: "test", action, subject: "thing", details: { n: 1, gone: undefined } };
}
