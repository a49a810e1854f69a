import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Instant } from "../ids.ts";
import { component, failed, now } from "../plan/install.testing.ts";
import { countComponentFailure, countFailure, failureAfterSuccess } from "./failed-attempts.ts";

const db = component("db");
const before = failed(db, { attempts: 3 });
const failure = { code: before.code, message: before.message, mayRepeat: true };

describe("the last failure of a component", () => {
  test("counts failures in a row of the same deploy, its plan's included", () => {
    const at = Instant.parse(now + 1);
    const again = countComponentFailure(before, "apply", before.key, failure, at);

    assert.equal(countComponentFailure(null, "apply", before.key, failure, at).attempts, 1);
    assert.deepEqual(again, { ...before, at, attempts: 4 });
    assert.equal(countComponentFailure(before, "plan", before.key, failure, at).attempts, 4);
  });

  test("starts anew for another deploy, and for a destroy", () => {
    const other = failed(component("db", { version: "2" })).key;

    assert.equal(countComponentFailure(before, "apply", other, failure, now).attempts, 1);
    assert.equal(countComponentFailure(before, "destroy", before.key, failure, now).attempts, 1);
  });

  test("is cleared by a success, but an apply's not by a plan that works", () => {
    const plan = { ...before, operation: "plan" } as const;

    assert.equal(failureAfterSuccess(before, "apply"), null);
    assert.equal(failureAfterSuccess(before, "destroy"), null);
    assert.equal(failureAfterSuccess(plan, "plan"), null);
    assert.deepEqual(failureAfterSuccess(before, "plan"), before);
  });

  test("remembers that its operation may have run and must not run twice", () => {
    const once = countFailure(null, undefined, { ...failure, mayRepeat: false }, now);

    assert.equal(once.mayRepeat, false);
    assert.equal(countFailure(once, undefined, failure, now).mayRepeat, undefined);
  });
});
