// What servers that share a database promise each other, as tests: who is there is known, notices arrive in order and
// whole, and what is done alone is done by one.

import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Notice } from "../peers/notice.ts";
import type { Peers } from "../peers/peers.ts";
import { ACME as INSTALL } from "./rows.ts";
import { until } from "./test-server.ts";

/** Makes another server at the same place each time. */
export type OpenPeers = () => Promise<Peers>;

export function describePeers(
  name: string,
  create: (t: TestContext) => OpenPeers | Promise<OpenPeers>,
): void {
  describe(`${name} keeps the contract of peers`, () => {
    async function opened(t: TestContext, count: number) {
      const open = await create(t);
      const servers = [];
      for (let n = 0; n < count; n++) {
        const peers = await open();
        t.after(() => peers.close());
        const told: Notice[] = [];
        const counts = { unsure: 0 };
        peers.listen({
          onNotice: (notice) => void told.push(notice),
          onUnsure: () => void counts.unsure++,
          onRenamed: () => undefined,
        });
        servers.push({ peers, told, counts });
      }
      for (const { peers } of servers) {
        await until(
          async () => peers.servers(),
          (all) => all.length === count,
          "all are there",
        );
      }
      return servers;
    }

    test("each knows the others, in the same order, and itself among them", async (t) => {
      const [a, b, c] = await opened(t, 3);
      assert.ok(a && b && c);

      assert.deepEqual(a.peers.servers(), b.peers.servers());
      assert.deepEqual(
        a.peers.servers(),
        [a.peers.self(), b.peers.self(), c.peers.self()].toSorted(),
      );
    });

    test("one that goes is noticed, and those that stay look at everything", async (t) => {
      const [a, b] = await opened(t, 2);
      assert.ok(a && b);
      const before = a.counts.unsure;

      await b.peers.close();

      await until(
        async () => a.peers.servers(),
        (all) => all.length === 1,
        "one is left",
      );
      assert.ok(a.counts.unsure > before);
    });

    test("what one tells comes to all others, in its order, and not to itself", async (t) => {
      const [a, b, c] = await opened(t, 3);
      assert.ok(a && b && c);
      const notices: Notice[] = [
        { kind: "link", audience: INSTALL, epoch: 1, isUp: true },
        { kind: "install", install: INSTALL },
        { kind: "link", audience: INSTALL, epoch: 1, isUp: false },
        { kind: "releases" },
      ];

      for (const notice of notices) a.peers.tell(notice);

      for (const { told } of [b, c]) {
        await until(
          async () => told,
          (all) => all.length >= notices.length,
          "all were told",
        );
        assert.deepEqual(told, notices);
      }
      assert.deepEqual(a.told, []);
    });

    test("thousands at once arrive, also with texts that are far too long", async (t) => {
      const [a, b] = await opened(t, 2);
      assert.ok(a && b);
      const said = { kind: "job", install: null, component: null } as const;

      for (let n = 0; n < 3_000; n++) {
        const message = n % 100 === 0 ? "é".repeat(20_000) : `${n}`;
        a.peers.tell({ kind: "event", event: { ...said, subject: `${n}`, message } });
      }

      await until(
        async () => b.told.length,
        (count) => count === 3_000,
        "all were told",
      );
      const subjects = b.told.map((notice) =>
        notice.kind === "event" ? notice.event.subject : "",
      );
      assert.deepEqual(
        subjects,
        Array.from({ length: 3_000 }, (_, n) => `${n}`),
      );
    });

    test("work of one name is done by one server at a time, and by all in the end", async (t) => {
      const servers = await opened(t, 3);
      let inside = 0;
      let most = 0;
      let done = 0;
      const work = async () => {
        most = Math.max(most, ++inside);
        await sleep(5);
        inside--;
        done++;
      };

      await Promise.all(
        servers.flatMap(({ peers }) => [peers.alone("one", work), peers.alone("one", work)]),
      );

      assert.deepEqual({ most, done }, { most: 1, done: 6 });
    });

    test("work that somebody is at is left to them; work that failed can be done again", async (t) => {
      const [a, b] = await opened(t, 2);
      assert.ok(a && b);
      const held = Promise.withResolvers<void>();
      const entered = Promise.withResolvers<void>();
      const long = a.peers.alone("one", async () => {
        entered.resolve();
        await held.promise;
        throw new Error("failed");
      });
      await entered.promise;
      let runs = 0;

      await b.peers.unlessBusy("one", async () => void runs++);
      assert.equal(runs, 0);
      held.resolve();
      await assert.rejects(long, /failed/);
      await b.peers.unlessBusy("one", async () => void runs++);

      assert.equal(runs, 1);
    });
  });
}
