import assert from "node:assert/strict";
import { createHash, hash } from "node:crypto";
import { test } from "node:test";
import * as fc from "fast-check";
import { digestOf, sha256Hex, useSha256 } from "./sha256.ts";

const text = (value: string) => new TextEncoder().encode(value);

// The vectors of FIPS 180-4's examples.
const VECTORS: readonly (readonly [string, string])[] = [
  ["", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
  ["abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
  [
    "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
  ],
  ["a".repeat(1_000_000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"],
];

for (const [input, expected] of VECTORS) {
  test(`hashes the published vector of ${input.length} letters`, () => {
    assert.equal(sha256Hex(text(input)), expected);
  });
}

test("agrees with the platform's own on any bytes", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      assert.equal(sha256Hex(bytes), createHash("sha256").update(bytes).digest("hex"));
    }),
  );
});

test("hashes a text as its UTF-8", () => {
  for (const value of ["abc", "\u{e9}\u{1f5dd}", "\ud800"]) {
    assert.equal(sha256Hex(value), sha256Hex(text(value)));
  }
});

test("digests a value by what it says, not by the order of its keys", () => {
  assert.equal(digestOf({ a: 1, b: [2] }), digestOf({ b: [2], a: 1 }));
  assert.notEqual(digestOf({ a: 1 }), digestOf({ a: "1" }));
});

test("takes the machine's own in its place, and nothing that says something else", () => {
  let asked = 0;
  assert.throws(() => useSha256((bytes) => hash("sha1", bytes, "hex")), TypeError);
  const inLatin = (data: Uint8Array | string) =>
    hash("sha256", typeof data === "string" ? Buffer.from(data, "latin1") : data, "hex");
  assert.throws(() => useSha256(inLatin), TypeError);
  useSha256((bytes) => {
    asked++;
    return hash("sha256", bytes, "hex");
  });
  asked = 0;

  assert.equal(sha256Hex(text("abc")), VECTORS[1]?.[1]);
  assert.equal(asked, 1);
});
