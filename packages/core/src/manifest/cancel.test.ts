import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Instant, JobId } from "../ids.ts";
import { sealedBy, testKey, verifyForTest } from "../trust/trust.testing.ts";
import {
  CANCEL_PAYLOAD_TYPE,
  Cancel,
  cancelBytes,
  graceFor,
  type JudgeCancel,
  judgeCancel,
} from "./cancel.ts";
import { MANIFEST_PAYLOAD_TYPE } from "./manifest.ts";

const now = Instant.parse(1_000_000);
const [director, stranger] = [testKey(), testKey()];
const job = JobId.parse("jabcdefghijklmnop");
const audience = "iacmeaaaaaaaaaaaa";

function cancel(changes: Partial<Record<keyof Cancel, unknown>> = {}): Cancel {
  const about = { version: 1, audience, job, attempt: 1, requestedBy: "ada", because: "wrong" };
  return { ...about, graceMs: 0, issuedAt: now, notAfter: now + 100, ...changes } as Cancel;
}

const sealed = (changes = {}, by = director, type = CANCEL_PAYLOAD_TYPE) =>
  sealedBy(cancelBytes(cancel(changes)), [by], type);

function judge(envelope: unknown, changes: Partial<JudgeCancel> = {}): string {
  const judged = judgeCancel({
    envelope,
    keys: [{ keyid: director.keyid, ...director.key }],
    threshold: 1,
    verify: verifyForTest,
    audience,
    job,
    attempt: 1,
    now,
    clockSkewMs: 10,
    ...changes,
  });
  return judged.kind === "ok" ? "ok" : `${judged.code}: ${judged.because}`;
}

describe("an agent judging a cancel", () => {
  test("takes one that its director signed, for this attempt and now", () => {
    assert.equal(judge(sealed()), "ok");
    assert.equal(judge(sealed(), { now: Instant.parse(now + 105) }), "ok");
  });

  const LIES: Record<string, [unknown, RegExp]> = {
    "unsigned ones": [undefined, /^signature: nobody signed it/],
    "forged ones": [sealed({}, stranger), /^signature/],
    "forged ones under the director's id": [
      sealed({}, { ...stranger, keyid: director.keyid }),
      /^signature/,
    ],
    "ones for another install": [sealed({ audience: "iglobexaaaaaaaaaa" }), /^wrong_install/],
    "ones for another job": [sealed({ job: "jaaaaaaaaaaaaaaaa" }), /^invalid: .*jaaaa/],
    "ones for another attempt": [sealed({ attempt: 2 }), /^invalid: .*attempt 2/],
    "old ones": [sealed({ notAfter: now - 50 }), /^expired/],
    "ones from the future": [sealed({ issuedAt: now + 50 }), /^expired/],
    "manifests in their place": [sealed({}, director, MANIFEST_PAYLOAD_TYPE), /^invalid/],
    "what is no cancel": [sealed({ graceMs: -1 }), /^invalid: .*not a cancel/],
  };
  for (const [lie, [envelope, because]] of Object.entries(LIES)) {
    test(`refuses ${lie}`, () => assert.match(judge(envelope), because));
  }

  test("wants the director's threshold, by different keys", () => {
    const second = testKey();
    const keys = [director, second].map(({ keyid, key }) => ({ keyid, ...key }));
    const two = { keys, threshold: 2 };

    assert.match(judge(sealed(), two), /^signature: 1 of the 2/);
    const both = sealedBy(cancelBytes(cancel()), [director, second], CANCEL_PAYLOAD_TYPE);
    assert.equal(judge(both, two), "ok");
  });
});

test("a job has a smallest grace, longer where it changes something", () => {
  assert.equal(graceFor("apply", 0), 30_000);
  assert.equal(graceFor("destroy", 29_999), 30_000);
  assert.equal(graceFor("exec", 0), 10_000);
  assert.equal(graceFor("apply", 120_000), 120_000);
});
