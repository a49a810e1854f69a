import assert from "node:assert/strict";
import { test } from "node:test";
import { createRepeats, rememberFirsts } from "./repeats.ts";

const denied = (actor: string) => ({
  actor,
  action: "call.denied",
  subject: "createToken",
  details: { needs: "admin" },
});

test("the first of a kind is put on record at once, the others as one row when the window ends", () => {
  let now = 1_000;
  const repeats = createRepeats({ now: () => now, windowMs: 100 });

  const first = Array.from({ length: 50 }, () => repeats.isFirst(denied("token:ci")));
  now = 1_050;
  repeats.isFirst(denied("token:ci"));

  assert.deepEqual([first[0], first.slice(1).some(Boolean)], [true, false]);
  assert.deepEqual(repeats.due(), []);
  now = 1_100;
  const details = { needs: "admin", more: 50, since: 1_000, lastAt: 1_050 };
  assert.deepEqual(repeats.due(), [{ ...denied("token:ci"), details }]);
  assert.ok(repeats.isFirst(denied("token:ci")), "a new window begins");
});

test("what happened once is not said twice", () => {
  const repeats = createRepeats({ now: () => 0 });
  repeats.isFirst(denied("token:ci"));

  assert.deepEqual(repeats.due({ all: true }), []);
});

test("a peer that is another one every time makes no more rows and takes no more memory", () => {
  const repeats = createRepeats({ now: () => 7, kindsMax: 3 });

  const first = Array.from({ length: 1_000 }, (_, n) => repeats.isFirst(denied(`token:${n}`)));

  assert.equal(first.filter(Boolean).length, 3);
  const details = { more: 997, since: 7, lastAt: 7 };
  const several = { ...denied("several"), subject: "several", details };
  assert.deepEqual(repeats.due({ all: true }), [several]);
});

test("what was the first of its kind still is when the work of a transaction runs again", () => {
  const repeats = createRepeats({ now: () => 0 });
  const entry = { actor: "a", action: "b", subject: "c", details: {} };
  const remembered = rememberFirsts(repeats);

  const runs = [1, 2].map(() => {
    remembered.begin();
    return [remembered.isFirst(entry), remembered.isFirst(entry)];
  });

  assert.deepEqual(runs, [
    [true, false],
    [true, false],
  ]);
  assert.equal(repeats.isFirst(entry), false);
});
