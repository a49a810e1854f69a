import assert from "node:assert/strict";
import { test } from "node:test";
import { failuresAfter, reconnectDelayMs } from "./reconnect.ts";

const facts = { failures: 0, spreadMs: 8_000, retryAfterMs: 0, roll: 0.5 };

test("after a session, agents come back spread as the server asked", () => {
  assert.equal(reconnectDelayMs(facts), 4_000);
  assert.equal(reconnectDelayMs({ ...facts, roll: 0 }), 0);
});

test("windows double and stop growing at about a minute (L-5.6)", () => {
  const windows = [1, 2, 3, 7, 8, 50].map((failures) =>
    reconnectDelayMs({ ...facts, failures, roll: 0.999999 }),
  );
  assert.deepEqual(windows, [999, 1_999, 3_999, 63_999, 63_999, 63_999]);
});

test("nobody comes before the server said", () => {
  assert.equal(reconnectDelayMs({ ...facts, failures: 1, retryAfterMs: 5_000, roll: 0 }), 5_000);
});

test("only a link that held for a while starts the windows anew", () => {
  assert.equal(failuresAfter(5, 0), 5);
  assert.equal(failuresAfter(5, 59_000), 5);
  assert.equal(failuresAfter(5, 60_000), 0);
});

test("a server that welcomes and cuts is dialled with backoff, up to every 16 seconds", () => {
  const windows = [0, 1, 2, 5, 50].map((failures) =>
    reconnectDelayMs({ ...facts, failures, wasWelcome: true, roll: 0.999999 }),
  );
  assert.deepEqual(windows, [7_999, 999, 1_999, 15_999, 15_999]);
});
