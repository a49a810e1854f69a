import assert from "node:assert/strict";
import { test } from "node:test";
import { reconnectDelayMs } from "./reconnect.ts";

const facts = { failures: 0, spreadMs: 8_000, retryAfterMs: 0, roll: 0.5 };

test("after a session, agents come back spread as the server asked", () => {
  assert.equal(reconnectDelayMs(facts), 4_000);
  assert.equal(reconnectDelayMs({ ...facts, roll: 0 }), 0);
});

test("windows double and stop growing at about a minute", () => {
  const windows = [1, 2, 3, 7, 8, 50].map((failures) =>
    reconnectDelayMs({ ...facts, failures, roll: 0.999999 }),
  );
  assert.deepEqual(windows, [999, 1_999, 3_999, 63_999, 63_999, 63_999]);
});

test("nobody comes before the server said", () => {
  assert.equal(reconnectDelayMs({ ...facts, failures: 1, retryAfterMs: 5_000, roll: 0 }), 5_000);
});
