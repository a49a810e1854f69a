import assert from "node:assert/strict";
import { test } from "node:test";
import { createFailedLogins, FAILED_LOGIN_LIMITS } from "./failed-logins.ts";

const limits = { ...FAILED_LOGIN_LIMITS, free: 2, stepMs: 100, delayMsMax: 1_000, waitingMax: 3 };

function failing() {
  let time = 0;
  const logins = createFailedLogins(() => time, limits);
  const fail = (address: string, token: string) => {
    const delay = logins.fail({ address, token });
    if (delay !== undefined) logins.answered(address);
    return delay;
  };
  return { logins, fail, pass: (ms: number) => (time += ms) };
}

test("failures from one address are answered later and later, and forgiven after a quiet time", () => {
  const { fail, pass } = failing();

  const delays = Array.from({ length: 8 }, (_, n) => fail("192.0.2.1", `token-number-${n}`));

  assert.deepEqual(delays, [0, 0, 200, 400, 800, 1_000, 1_000, 1_000]);
  assert.equal(fail("192.0.2.2", "another"), 0);
  pass(limits.forgetMs + 1);
  assert.equal(fail("192.0.2.1", "token"), 0);
});

test("so are failures with one beginning of a token, wherever they come from", () => {
  const { fail } = failing();

  const delays = [1, 2, 3, 4].map((n) => fail(`192.0.2.${n}`, `exclave_abcdefgh-${n}`));

  assert.deepEqual(delays, [0, 0, 200, 400]);
});

test("answers that wait are bounded for one address", () => {
  const { logins } = failing();

  const delays = Array.from({ length: 5 }, () => logins.fail({ address: "192.0.2.1", token: "t" }));

  assert.deepEqual(delays.slice(3), [undefined, undefined]);
  logins.answered("192.0.2.1");
  assert.notEqual(logins.fail({ address: "192.0.2.1", token: "t" }), undefined);
});

test("remembers so many places and no more", () => {
  const few = createFailedLogins(() => 0, { ...limits, placesMax: 4 });
  for (let n = 0; n < 100; n++) few.fail({ address: `192.0.2.${n}`, token: `${n}` });

  assert.equal(few.fail({ address: "192.0.2.0", token: "0" }), 0, "the first was forgotten");
});
