import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeJoinString, encodeJoinString, JoinString } from "./join.ts";

const join = JoinString.parse({
  url: "http://127.0.0.1:8420",
  kind: "install",
  audience: "iacmeaaaaaaaaaaaa",
  secret: "x".repeat(26),
  trustDigest: `sha256:${"0".repeat(64)}`,
});

test("a join string comes back as it was made", () => {
  assert.deepEqual(decodeJoinString(encodeJoinString(join)), join);
  assert.deepEqual(decodeJoinString(`${encodeJoinString(join)}\n`), join);
});

test("anything else is no join string", () => {
  for (const text of [
    "",
    "hello",
    "exclave-join-v1.",
    "exclave-join-v1.!!!",
    "exclave-join-v1.e30",
  ]) {
    assert.equal(decodeJoinString(text), undefined);
  }
});
