import assert from "node:assert/strict";
import { test } from "node:test";
import { decideAgain, type Mishap } from "./again-rules.ts";

function attempts(mishap: Mishap): { readonly isAlone: boolean; readonly pauseMs: number }[] {
  const all = [];
  for (let attempt = 1; ; attempt++) {
    const again = decideAgain(mishap, attempt, 1);
    if (!again) return all;
    all.push(again);
  }
}

test("work that collides runs a few times beside others, then alone, and not for ever", () => {
  const alone = attempts("collided").map(({ isAlone }) => isAlone);

  assert.deepEqual(alone.slice(0, 3), [false, false, false]);
  assert.ok(alone.slice(3).length > 0 && alone.slice(3).every(Boolean));
  assert.ok(alone.length < 20);
});

test("a key that is taken also while nobody else is at work is taken", () => {
  assert.equal(attempts("taken").length, 4);
});

test("a database that restarts is waited for, with pauses that grow and have an end", () => {
  const pauses = attempts("cut").map(({ pauseMs }) => pauseMs);

  assert.ok(pauses.every((pause, n) => pause >= (pauses[n - 1] ?? 0) && pause <= 1_000));
  assert.ok(pauses.reduce((sum, pause) => sum + pause, 0) > 3_000);
});
