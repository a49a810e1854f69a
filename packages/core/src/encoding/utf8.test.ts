import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { strictText, utf8Bytes } from "./utf8.ts";

test("any text comes back as it was", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      // The reader drops a mark of byte order, as the platform's own does.
      fc.pre(!text.startsWith("\ufeff"));

      assert.equal(strictText(utf8Bytes(text)), text);
    }),
  );
});

test("bytes that are no text are refused, and the next text is read as if they had not come", () => {
  assert.throws(() => strictText(Uint8Array.of(0xe2, 0x82)), TypeError);
  assert.throws(() => strictText(Uint8Array.of(0xff)), TypeError);

  assert.equal(strictText(Uint8Array.of(0x61)), "a");
});
