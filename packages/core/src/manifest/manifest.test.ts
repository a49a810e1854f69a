import assert from "node:assert/strict";
import { test } from "node:test";
import { preAuthEncoding } from "./manifest.ts";

const text = (value: string) => new TextEncoder().encode(value);

test("the bytes to sign are those of the DSSE specification's example", () => {
  const encoded = preAuthEncoding("http://example.com/HelloWorld", text("hello world"));

  assert.equal(
    new TextDecoder().decode(encoded),
    "DSSEv1 29 http://example.com/HelloWorld 11 hello world",
  );
});

test("lengths count bytes, so that nothing can slide between type and payload", () => {
  assert.equal(new TextDecoder().decode(preAuthEncoding("é", text("ü"))), "DSSEv1 2 é 2 ü");
  assert.notDeepEqual(preAuthEncoding("a", text("b c")), preAuthEncoding("a b", text("c")));
});
