import assert from "node:assert/strict";
import { test } from "node:test";
import { digestOf, fromBase64, toBase64 } from "@exclave/core";
import { useMachineCoders } from "./machine-coders.ts";

test("the machine's coders say what the core's say", () => {
  const bytes = Uint8Array.of(0, 251, 255, 128);
  const before = [digestOf({ a: "\u{e9}" }), toBase64(bytes)];

  useMachineCoders();

  assert.deepEqual([digestOf({ a: "\u{e9}" }), toBase64(bytes)], before);
});

test("what the machine reads has memory of its own", () => {
  useMachineCoders();

  const bytes = fromBase64("+/8=");

  assert.deepEqual(bytes, Uint8Array.of(251, 255));
  assert.equal(bytes?.buffer.byteLength, 2);
});
