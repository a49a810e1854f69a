import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type OpenEnvelope, openEnvelope, type TrustedKey } from "./envelope.ts";
import { sealedBy, type TestKey, testKey, verifyForTest } from "./trust.testing.ts";

const TYPE = "application/test";
const payload = new TextEncoder().encode("payload");
const [one, two, three, p256] = [testKey(), testKey(), testKey(), testKey("ecdsa-p256")];

const trusted = ({ keyid, key }: TestKey): TrustedKey => ({
  keyid,
  spki: key.spki,
  scheme: key.scheme,
});

function open(envelope: unknown, changes: Partial<OpenEnvelope> = {}) {
  const opened = openEnvelope(envelope, {
    keys: [one, two, p256].map(trusted),
    threshold: 1,
    payloadType: TYPE,
    bytesMax: 100,
    verify: verifyForTest,
    ...changes,
  });
  return opened instanceof Uint8Array ? "opened" : `${opened.code}: ${opened.because}`;
}

const sealed = (...signers: TestKey[]) => sealedBy(payload, signers, TYPE);

describe("an envelope", () => {
  test("opens when as many different keys signed it as the threshold asks for", () => {
    assert.equal(open(sealed(one)), "opened");
    assert.equal(open(sealed(p256)), "opened");
    assert.equal(open(sealed(three, one, p256), { threshold: 2 }), "opened");
    assert.equal(open(sealed(one, two, p256), { threshold: 3 }), "opened");
  });

  test("counts a key once, however often and under however many ids it signs", () => {
    const alias = { ...trusted(one), keyid: "alias" };
    const aliased = sealedBy(payload, [one, { ...one, keyid: "alias" }], TYPE);

    assert.match(open(sealed(one, one), { threshold: 2 }), /^signature: 1 of the 2 keys/);
    const keys = [trusted(one), alias, trusted(two)];
    assert.match(open(aliased, { keys, threshold: 2 }), /^signature: 1 of the 2/);
  });

  const envelope = sealed(one);
  const forged = { ...three, keyid: one.keyid };
  const LIES: Record<string, [unknown, Partial<OpenEnvelope>, RegExp]> = {
    "no signature by a trusted key": [sealed(three), {}, /^signature: no key/],
    "a trusted id over a stranger's signature": [
      sealedBy(payload, [forged], TYPE),
      {},
      /^signature/,
    ],
    "fewer signatures than the threshold": [sealed(one, three), { threshold: 2 }, /1 of the 2/],
    "a threshold of nothing": [envelope, { threshold: 0 }, /^signature/],
    "a threshold that is no number": [envelope, { threshold: Number.NaN }, /^signature/],
    "no keys": [envelope, { keys: [] }, /^signature/],
    "another payload type": [sealedBy(payload, [one], "application/other"), {}, /^invalid/],
    "a payload type changed after signing": [
      { ...sealedBy(payload, [one], "application/other"), payloadType: TYPE },
      {},
      /^signature/,
    ],
    "a payload over the limit": [sealedBy(new Uint8Array(200), [one], TYPE), {}, /over the limit/],
    "a key of another scheme": [
      envelope,
      { keys: [{ ...trusted(one), scheme: "ecdsa-p256" }] },
      /^signature/,
    ],
    "a changed payload": [{ ...envelope, payload: btoa("Payload") }, {}, /^signature/],
    "more signatures than anybody needs": [sealed(...Array<TestKey>(17).fill(one)), {}, /^invalid/],
    "no signatures": [{ ...envelope, signatures: [] }, {}, /^invalid/],
    nothing: [undefined, {}, /^invalid/],
  };
  for (const [lie, [lying, changes, because]] of Object.entries(LIES)) {
    test(`does not open with ${lie}`, () => {
      assert.match(open(lying, changes), because);
    });
  }
});
