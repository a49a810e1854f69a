import assert from "node:assert/strict";
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { test } from "node:test";
import type { KeyScheme } from "@exclave/core";
import { verifySignature } from "./verify-signature.ts";

const BYTES = Buffer.from("what was signed");
const ed25519 = generateKeyPairSync("ed25519");
const p256 = generateKeyPairSync("ec", { namedCurve: "P-256" });
const p384 = generateKeyPairSync("ec", { namedCurve: "P-384" });
const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });

const spki = (key: KeyObject) => key.export({ type: "spki", format: "der" }).toString("base64");
const SCHEMES: [KeyScheme, typeof ed25519, string | null][] = [
  ["ed25519", ed25519, null],
  ["ecdsa-p256", p256, "sha256"],
];

for (const [scheme, { privateKey, publicKey }, hash] of SCHEMES) {
  const other = generateKeyPairSync("ed25519").publicKey;
  const signature = sign(hash, BYTES, privateKey);

  test(`a signature of ${scheme} holds for its key, its bytes and its scheme alone`, () => {
    const elsewhere = scheme === "ed25519" ? "ecdsa-p256" : "ed25519";

    assert.equal(verifySignature(spki(publicKey), BYTES, signature, scheme), true);
    assert.equal(verifySignature(spki(other), BYTES, signature, scheme), false);
    assert.equal(verifySignature(spki(publicKey), Buffer.from("else"), signature, scheme), false);
    assert.equal(verifySignature(spki(publicKey), BYTES, Buffer.alloc(64), scheme), false);
    assert.equal(verifySignature(spki(publicKey), BYTES, signature, elsewhere), false);
  });
}

test("a key of another kind, or none at all, verifies nothing", () => {
  for (const { privateKey, publicKey } of [p384, rsa]) {
    const signature = sign("sha256", BYTES, privateKey);
    for (const [scheme] of SCHEMES) {
      assert.equal(verifySignature(spki(publicKey), BYTES, signature, scheme), false);
    }
  }
  assert.equal(verifySignature("AAAA", BYTES, Buffer.alloc(64), "ed25519"), false);
});
