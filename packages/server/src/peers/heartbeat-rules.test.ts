import assert from "node:assert/strict";
import { test } from "node:test";
import {
  afterBeat,
  BEAT_EVERY_MS,
  CUT_OFF_AFTER_MS,
  GONE_AFTER_MS,
  isThere,
  mayJudge,
  NO_BEATS,
} from "./heartbeat-rules.ts";

function beatsUntil(end: number, from = 0, beats = NO_BEATS) {
  let known = beats;
  for (let at = from; at <= end; at += BEAT_EVERY_MS) known = afterBeat(known, at);
  return known;
}

test("a server judges others once its own heart has beaten for as long as it gives them", () => {
  assert.equal(mayJudge(NO_BEATS, 0), false);
  assert.equal(mayJudge(beatsUntil(0), 0), false);
  assert.equal(mayJudge(beatsUntil(GONE_AFTER_MS - 1_000), GONE_AFTER_MS - 1_000), false);
  assert.equal(mayJudge(beatsUntil(GONE_AFTER_MS), GONE_AFTER_MS), true);
});

test("one that could not reach the database waits as long again: the others could not either", () => {
  const steady = beatsUntil(20_000);
  const back = 60_000;

  const again = afterBeat(steady, back);

  assert.equal(mayJudge(steady, 20_000), true);
  assert.equal(mayJudge(again, back), false);
  assert.equal(mayJudge(beatsUntil(back + GONE_AFTER_MS, back + 1_000, again), back + 6_000), true);
});

test("a silent server is gone sooner when its connection has ended", () => {
  assert.equal(isThere({ silentMs: CUT_OFF_AFTER_MS, isConnected: true }), true);
  assert.equal(isThere({ silentMs: CUT_OFF_AFTER_MS, isConnected: false }), false);
  assert.equal(isThere({ silentMs: BEAT_EVERY_MS, isConnected: false }), true);
  assert.equal(isThere({ silentMs: GONE_AFTER_MS, isConnected: true }), false);
});
