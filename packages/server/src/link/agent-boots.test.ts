import assert from "node:assert/strict";
import { test } from "node:test";
import { BOOTS_KEPT_MAX, noteBoot } from "./agent-boots.ts";

/** Which of these hellos, in this order, is taken for that of a copy. */
function noticedAt(...hellos: readonly string[]): number[] {
  let boots: readonly string[] = [];
  return hellos.flatMap((bootId, index) => {
    const noted = noteBoot(boots, bootId);
    boots = noted.boots;
    assert.ok(boots.length <= BOOTS_KEPT_MAX);
    return noted.because === undefined ? [] : [index];
  });
}

test("an agent that reconnects or is restarted, however often, is no copy", () => {
  assert.deepEqual(noticedAt("a", "a", "a", "a"), []);
  assert.deepEqual(noticedAt(...Array.from({ length: 30 }, (_, index) => `${index}`)), []);
  assert.deepEqual(noticedAt("a", "b", "b", "c", "c"), []);
});

test("a hello of the process before that comes late is no copy", () => {
  assert.deepEqual(noticedAt("a", "b", "a", "b", "b", "c"), []);
});

test("two processes that take turns are noticed, and again if they go on", () => {
  assert.deepEqual(noticedAt("a", "b", "a", "b", "a"), [4]);
  assert.deepEqual(noticedAt("a", "b", "a", "b", "a", "b", "a", "b", "a"), [4, 8]);
});
