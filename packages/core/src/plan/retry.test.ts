import assert from "node:assert/strict";
import { test } from "node:test";
import { FAILURE_CODES, FAILURES } from "../failure.ts";
import { Instant } from "../ids.ts";
import { ATTEMPTS_MAX, backoffMs, decideRetry } from "./retry.ts";

const at = Instant.parse(1_000_000);

for (const code of FAILURE_CODES) {
  test(`a ${code} failure is tried again by itself only if its rule says backoff`, () => {
    const much = Instant.parse(at + 3_600_000);

    const { kind } = decideRetry({ code, at, attempts: 1 }, much);

    assert.equal(kind, FAILURES[code].retry === "backoff" ? "now" : "not-by-itself");
  });
}

test("waits twice as long after each failure, and never longer than five minutes", () => {
  const waits = [1, 2, 3, 4, 5, 6, 7, 8, 9, 50].map(backoffMs);

  assert.deepEqual(
    waits,
    [2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000],
  );
});

test("is due exactly when the wait is over", () => {
  const failure = { code: "unavailable", at, attempts: 2 } as const;

  assert.deepEqual(decideRetry(failure, Instant.parse(at + 3_999)), {
    kind: "later",
    until: at + 4_000,
  });
  assert.deepEqual(decideRetry(failure, Instant.parse(at + 4_000)), { kind: "now" });
});

test("gives up after the last attempt and says how often it failed", () => {
  const failure = { code: "tool", at, attempts: ATTEMPTS_MAX } as const;

  assert.deepEqual(decideRetry(failure, Instant.parse(at + 3_600_000)), {
    kind: "not-by-itself",
    because: "it failed 8 times in a row",
  });
});
