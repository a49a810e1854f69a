import assert from "node:assert/strict";
import { test } from "node:test";
import { asFailure, FAILURE_CODES, FAILURES, Failure, unreachable } from "./failure.ts";

test("every code says whether to retry, who acts and what it means", () => {
  for (const code of FAILURE_CODES) {
    const { retry, actor, httpStatus, means } = FAILURES[code];
    assert.ok(["never", "backoff", "until-gone", "after-change"].includes(retry), code);
    assert.ok(["vendor", "customer", "operator", "nobody"].includes(actor), code);
    assert.ok(httpStatus >= 400 && httpStatus < 600, code);
    assert.ok(means.length > 10, code);
  }
});

test("a failure keeps its code, details and cause", () => {
  const cause = new Error("ECONNREFUSED");

  const failure = new Failure("unavailable", "cannot reach the registry", {
    cause,
    details: { a: 1 },
  });

  assert.equal(failure.code, "unavailable");
  assert.equal(failure.cause, cause);
  assert.deepEqual(failure.details, { a: 1 });
  assert.equal(failure.rule.retry, "until-gone");
});

test("a failure stays itself, anything else thrown is a bug with its cause", () => {
  const failure = new Failure("policy", "no");
  const error = new Error("boom");

  assert.equal(asFailure(failure), failure);
  assert.equal(asFailure(error).code, "bug");
  assert.equal(asFailure(error).cause, error);
  assert.equal(asFailure("text").message, "text");
});

test("a value that cannot be is a bug", () => {
  assert.throws(
    () => unreachable("x" as never),
    (reason) => reason instanceof Failure && reason.code === "bug",
  );
});

test("what goes away without anybody's word is retried until it has", () => {
  for (const code of ["disk_full", "expired", "unavailable", "rate_limited"] as const) {
    assert.equal(FAILURES[code].retry, "until-gone", code);
  }
});
