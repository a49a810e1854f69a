import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { createSystemTimers } from "@exclave/api";
import { pino } from "pino";
import { createReconcileLoop } from "./reconcile-loop.ts";

const log = pino({ level: "silent" });

test("the event loop has its turn between two reconciliations", async () => {
  const reconciled: string[] = [];
  const all = Promise.withResolvers<void>();
  const reconcile = async (name: string) => {
    if (reconciled.push(name) === 100) all.resolve();
  };
  const loop = createReconcileLoop({ reconcile, now: () => 0, timers: createSystemTimers(), log });
  for (let n = 0; n < 100; n++) loop.mark(`install-${n}`);

  await nextTurn();
  const beforeTurn = reconciled.length;
  await all.promise;
  await loop.stop();

  assert.ok(beforeTurn <= 16, `${beforeTurn} reconciled before a socket could be read`);
});

test("what is marked during its own reconciliation is reconciled again", async () => {
  const reconciled: string[] = [];
  const twice = Promise.withResolvers<void>();
  const reconcile = async (name: string) => {
    if (reconciled.push(name) === 1) loop.mark(name);
    else twice.resolve();
  };
  const loop = createReconcileLoop({ reconcile, now: () => 0, timers: createSystemTimers(), log });

  loop.mark("acme");
  await twice.promise;
  await loop.stop();

  assert.deepEqual(reconciled, ["acme", "acme"]);
});

test("one that takes long keeps no other waiting, and is not begun twice at once", async () => {
  const slow = Promise.withResolvers<void>();
  const others = Promise.withResolvers<void>();
  const all = Promise.withResolvers<void>();
  const reconciled: string[] = [];
  let atOnce = 0;
  const reconcile = async (name: string) => {
    if (name === "slow") {
      assert.equal(++atOnce, 1);
      await slow.promise;
      atOnce--;
    }
    if (reconciled.push(name) === 20) others.resolve();
    if (reconciled.length === 22) all.resolve();
  };
  const loop = createReconcileLoop({ reconcile, now: () => 0, timers: createSystemTimers(), log });

  loop.mark("slow");
  for (let n = 0; n < 20; n++) loop.mark(`install-${n}`);
  await others.promise;
  loop.mark("slow");
  const before = [...reconciled];
  slow.resolve();
  await all.promise;
  await loop.stop();

  assert.ok(!before.includes("slow"));
  assert.deepEqual(reconciled.slice(20), ["slow", "slow"]);
});
