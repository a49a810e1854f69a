import assert from "node:assert/strict";
import { test } from "node:test";
import { UNPROVEN_MAX } from "@exclave/api";
import { admit, ageMsOf, pingMsFor, spreadMsFor } from "./herd.ts";

test("a few agents are pinged as often as wanted, many share 200 pings a second", () => {
  assert.equal(pingMsFor(0, 10_000), 10_000);
  assert.equal(pingMsFor(2_000, 10_000), 10_000);
  assert.equal(pingMsFor(10_000, 10_000), 50_000);
  assert.equal(pingMsFor(1_000_000, 10_000), 120_000);
  assert.equal(pingMsFor(1_000_000, 600_000), 600_000);
});

test("a few agents come back at once, many over as long as greeting them takes", () => {
  assert.equal(spreadMsFor(1), 200);
  assert.equal(spreadMsFor(1_000), 4_000);
  assert.equal(spreadMsFor(10_000), 40_000);
  assert.equal(spreadMsFor(10_000_000), 300_000);
});

test("connections end after eight hours, a tenth sooner or later", () => {
  const minutes = [0, 0.5, 1].map((roll) => ageMsOf(roll) / 60_000);
  assert.deepEqual(minutes, [432, 480, 528]);
});

test("at the bound a newcomer waits for those that prove themselves, and takes the place of one that does not", () => {
  assert.equal(admit({ count: UNPROVEN_MAX - 1, oldestMs: 60_000 }), "in");
  assert.equal(admit({ count: UNPROVEN_MAX, oldestMs: 100 }), "later");
  assert.equal(admit({ count: UNPROVEN_MAX, oldestMs: 2_001 }), "for_the_oldest");
});
