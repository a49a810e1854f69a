import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { fromBase64, toBase64, useBase64 } from "./base64.ts";

test("any bytes come back as they were, spelt as the platform spells them", () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      const text = toBase64(bytes);

      assert.equal(text, Buffer.from(bytes).toString("base64"));
      assert.deepEqual([...(fromBase64(text) ?? [])], [...bytes]);
    }),
  );
});

for (const text of ["YQ", "Y Q==", "YR==", "Y-Q=", "!"]) {
  test(`refuses ${JSON.stringify(text)}, which is not how any bytes are written`, () => {
    assert.equal(fromBase64(text), undefined);
  });
}

test("takes the machine's own in its place, and nothing that says something else", () => {
  const write = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
  const read = (text: string) => new Uint8Array(Buffer.from(text, "base64"));
  const inUrls = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64url");
  assert.throws(() => useBase64({ write: inUrls, read }), TypeError);
  assert.throws(() => useBase64({ write, read: (text) => read(text).reverse() }), TypeError);

  useBase64({ write, read });

  assert.equal(toBase64(Uint8Array.of(251, 255)), "+/8=");
  assert.deepEqual(fromBase64("+/8="), Uint8Array.of(251, 255));
  for (const text of ["YQ", "Y Q==", "YR==", "Y-Q=", "-_8=", "!"]) {
    assert.equal(fromBase64(text), undefined, text);
  }
});
