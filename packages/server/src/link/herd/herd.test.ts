import assert from "node:assert/strict";
import { test } from "node:test";
import { UNPROVEN_MAX } from "@exclave/api";
import { admit, ageMsOf, pingMsFor, planDrain, spreadMsFor } from "./herd.ts";

test("a few agents are pinged as often as wanted, many share 200 pings a second (L-5.1)", () => {
  assert.equal(pingMsFor(0, 10_000), 10_000);
  assert.equal(pingMsFor(2_000, 10_000), 10_000);
  assert.equal(pingMsFor(10_000, 10_000), 50_000);
  assert.equal(pingMsFor(1_000_000, 10_000), 120_000);
  assert.equal(pingMsFor(1_000_000, 600_000), 600_000);
});

test("a few agents come back at once, many over as long as greeting them takes (L-5.2)", () => {
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

test("where others take them, agents leave one by one, within 30 seconds however many they are", () => {
  const few = planDrain(2, false);
  const many = planDrain(10_000, false);

  assert.deepEqual([few.leaveMs(0), few.leaveMs(1)], [100, 200]);
  assert.deepEqual([many.leaveMs(4_999), many.leaveMs(9_999)], [15_000, 30_000]);
  assert.deepEqual([many.stayAwayMs(9_999), many.limitMs], [0, 45_000]);
});

test("a server that is alone is left at once, and its agents come back one by one when it may be there again", () => {
  const { leaveMs, stayAwayMs, limitMs } = planDrain(2_000, true);

  assert.deepEqual([leaveMs(0), leaveMs(1_999)], [0, 0]);
  assert.deepEqual([stayAwayMs(0), stayAwayMs(1_000), stayAwayMs(1_999)], [500, 3_503, 6_503]);
  assert.equal(limitMs, 7_007);
});
