import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { createSystemTimers } from "@exclave/api";
import { pino } from "pino";
import { createDirtyLoop } from "./dirty-loop.ts";

const log = pino({ level: "silent" });

test("the event loop has its turn between two looks", async () => {
  const looked: string[] = [];
  const all = Promise.withResolvers<void>();
  const look = async (name: string) => {
    if (looked.push(name) === 100) all.resolve();
  };
  const loop = createDirtyLoop({ look, now: () => 0, timers: createSystemTimers(), log });
  for (let n = 0; n < 100; n++) loop.mark(`install-${n}`);

  await nextTurn();
  const looksBeforeTurn = looked.length;
  await all.promise;
  await loop.stop();

  assert.ok(looksBeforeTurn <= 2, `${looksBeforeTurn} looks before a socket could be read`);
});

test("what is marked during its own look is looked at again", async () => {
  const looked: string[] = [];
  const twice = Promise.withResolvers<void>();
  const look = async (name: string) => {
    if (looked.push(name) === 1) loop.mark(name);
    else twice.resolve();
  };
  const loop = createDirtyLoop({ look, now: () => 0, timers: createSystemTimers(), log });

  loop.mark("acme");
  await twice.promise;
  await loop.stop();

  assert.deepEqual(looked, ["acme", "acme"]);
});
