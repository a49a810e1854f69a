import assert from "node:assert/strict";
import { test } from "node:test";
import { asFailure, Failure } from "./failure.ts";

/** The same class as another bundle would hold it. */
class ForeignFailure extends Error {
  readonly code: string;
  readonly details = {};

  constructor(code: string) {
    super("no");
    this.name = "Failure";
    this.code = code;
  }
}

test("a failure made by another copy of the class is a failure", () => {
  assert.ok(new ForeignFailure("conflict") instanceof Failure);
  assert.equal(asFailure(new ForeignFailure("conflict")).code, "conflict");
});

test("an error that only looks like one is not", () => {
  assert.ok(!(new ForeignFailure("ENOENT") instanceof Failure));
  assert.ok(!(Object.assign(new Error("no"), { code: "conflict" }) instanceof Failure));
  assert.ok(!((undefined as unknown) instanceof Failure));
  assert.equal(asFailure(new Error("no")).code, "bug");
});
