import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Instant } from "../ids.ts";
import { component, failed, now } from "./install.testing.ts";
import { recordFailure, recordSuccess } from "./last-failure.ts";

const db = component("db");
const before = failed(db, { attempts: 3 });

describe("the last failure of a component", () => {
  test("counts failures in a row of the same deploy, its plan's included", () => {
    const at = Instant.parse(now + 1);

    assert.equal(recordFailure(undefined, before).attempts, 1);
    assert.deepEqual(recordFailure(before, { ...before, at }), { ...before, at, attempts: 4 });
    assert.equal(recordFailure(before, { ...before, operation: "plan" }).attempts, 4);
  });

  test("starts anew for another deploy, and for a destroy", () => {
    const other = failed(component("db", { version: "2" }));

    assert.equal(recordFailure(before, other).attempts, 1);
    assert.equal(recordFailure(before, { ...before, operation: "destroy" }).attempts, 1);
  });

  test("is cleared by a success, but an apply's not by a plan that works", () => {
    const plan = { ...before, operation: "plan" } as const;

    assert.equal(recordSuccess(before, "apply"), undefined);
    assert.equal(recordSuccess(before, "destroy"), undefined);
    assert.equal(recordSuccess(plan, "plan"), undefined);
    assert.deepEqual(recordSuccess(before, "plan"), before);
  });
});
