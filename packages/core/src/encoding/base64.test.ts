import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { fromBase64, toBase64 } from "./base64.ts";

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
