import assert from "node:assert/strict";
import { test } from "node:test";
import { FAILURE_CODES, FAILURES } from "../failure.ts";
import { Instant } from "../ids.ts";
import { ATTEMPTS_MAX, backoffMs, decideRetry } from "./retry.ts";

const at = Instant.parse(1_000_000);
const much = Instant.parse(at + 3_600_000);

for (const code of FAILURE_CODES) {
  const { retry } = FAILURES[code];
  test(`a ${code} failure is retried as its rule says: ${retry}`, () => {
    const isRetried = retry === "backoff" || retry === "until-gone";

    const first = decideRetry({ code, at, attempts: 1 }, much);
    const late = decideRetry({ code, at, attempts: ATTEMPTS_MAX }, much);

    assert.equal(first.kind, isRetried ? "now" : "not-by-itself");
    assert.equal(late.kind, retry === "until-gone" ? "now" : "not-by-itself");
  });

  test(`a ${code} failure of what must not run twice is never retried by itself`, () => {
    const decision = decideRetry({ code, at, attempts: 1, mayRepeat: false }, much);

    assert.equal(decision.kind, "not-by-itself");
    assert.match(decision.kind === "not-by-itself" ? decision.because : "", /may have run/);
  });
}

test("waits four times as long after each failure, and never longer than five minutes", () => {
  const waits = [1, 2, 3, 4, 5, 6, 50, 1_000_000].map(backoffMs);

  assert.deepEqual(waits, [2_000, 8_000, 32_000, 128_000, 300_000, 300_000, 300_000, 300_000]);
});

test("whatever fails at once is tried at most six times in its first ten minutes", () => {
  for (const code of FAILURE_CODES) {
    let clock: number = at;
    let tries = 0;
    for (let attempts = 1; clock < at + 600_000; attempts++) {
      tries++;
      const retry = decideRetry({ code, at: Instant.parse(clock), attempts }, Instant.parse(clock));
      if (retry.kind !== "later") break;
      clock = retry.until;
    }
    assert.ok(tries <= 6, `${code}: ${tries}`);
  }
});

test("is due exactly when the wait is over", () => {
  const failure = { code: "unavailable", at, attempts: 2 } as const;

  assert.deepEqual(decideRetry(failure, Instant.parse(at + 7_999)), {
    kind: "later",
    until: at + 8_000,
  });
  assert.deepEqual(decideRetry(failure, Instant.parse(at + 8_000)), { kind: "now" });
});

test("gives up after the last attempt and says how often it failed", () => {
  const failure = { code: "tool", at, attempts: ATTEMPTS_MAX } as const;

  assert.deepEqual(decideRetry(failure, much), {
    kind: "not-by-itself",
    because: "it failed 6 times in a row",
  });
});
