import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { createKubeClient } from "./kube-client.ts";
import { holdLease, mayHold } from "./lease.ts";
import { createFakeCluster } from "./testing/fake-cluster.ts";

const cluster = await createFakeCluster(() => async () => 0);
const client = createKubeClient(cluster.connection);
after(async () => {
  client.close();
  await cluster.close();
});

function lease(name: string) {
  cluster.leases.set(name, { metadata: { name, resourceVersion: "0" }, spec: {} });
  const hold = (
    holder: string,
    signal: AbortSignal,
    onLost: (because: string) => void = () => {},
  ) =>
    holdLease(
      { client, namespace: "agent", name, holder, renewMs: 20, now: Date.now, onLost },
      signal,
    );
  return { hold, holder: () => cluster.leases.get(name)?.spec.holderIdentity };
}

test("a second copy waits until the first lets go", async () => {
  const { hold, holder } = lease("released");
  const forever = new AbortController().signal;
  const first = await hold("one", forever);
  let isHeld = false;
  const second = hold("two", forever).then((held) => {
    isHeld = true;
    return held;
  });
  await sleep(200);
  assert.deepEqual([holder(), isHeld], ["one", false]);

  await first.release();
  const held = await second;

  assert.equal(holder(), "two");
  await held.release();
  assert.equal(holder(), null);
});

test("a second copy that is not wanted any more stops waiting", async () => {
  const { hold } = lease("waiting");
  const first = await hold("one", new AbortController().signal);
  const waiting = new AbortController();
  const second = hold("two", waiting.signal);

  waiting.abort();

  await assert.rejects(second, { name: "AbortError" });
  await first.release();
});

test("a copy whose Lease somebody took is told, and does not take it back", async () => {
  const { hold, holder } = lease("taken");
  const { promise, resolve } = Promise.withResolvers<string>();
  const held = await hold("one", new AbortController().signal, resolve);
  const there = cluster.leases.get("taken");
  there.spec.holderIdentity = "two";
  there.metadata.resourceVersion = "other";

  assert.match(await promise, /another copy/);
  await held.release();
  assert.equal(holder(), "two");
});

test("a Lease is free when nobody has it, and when who has it was silent for all of its time", () => {
  const spec = { holderIdentity: "one", leaseDurationSeconds: 30 };

  assert.ok(mayHold({ spec: {} }, { holder: "two", unchangedMs: 0 }));
  assert.ok(mayHold({ spec }, { holder: "one", unchangedMs: 0 }));
  assert.ok(!mayHold({ spec }, { holder: "two", unchangedMs: 30_000 }));
  assert.ok(mayHold({ spec }, { holder: "two", unchangedMs: 30_001 }));
});
