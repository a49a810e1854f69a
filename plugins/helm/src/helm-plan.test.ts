import assert from "node:assert/strict";
import { test } from "node:test";
import { digestOf } from "@exclave/plugin-sdk/kubernetes";
import { checkPlan, type HelmPlan } from "./helm-plan.ts";

const rendering = { manifest: "kind: A", hooks: [] };
const values = { colour: "blue", nested: { a: 1, b: 2 } };
const PLAN: HelmPlan = {
  version: 1,
  release: "web",
  namespace: "team",
  base: { revision: 3, status: "deployed" },
  valuesDigest: digestOf(values),
  renderedDigest: digestOf(rendering),
  changes: [],
  rendering,
};
const FACTS = {
  release: "web",
  namespace: "team",
  values: { nested: { b: 2, a: 1 }, colour: "blue" },
  history: [{ revision: 3, status: "deployed" }],
};

test("a plan holds while nothing it stands on has changed", () => {
  checkPlan(PLAN, FACTS);
});

// biome-ignore format: a table reads as a table.
const STALE: readonly (readonly [what: string, plan: Partial<HelmPlan>, facts: object, says: RegExp])[] = [
  ["another release", {}, { release: "api" }, /for the release web in team/],
  ["another namespace", {}, { namespace: "other" }, /for the release web in team/],
  ["other values", {}, { values: { colour: "red" } }, /the values are others now/],
  ["an altered rendering", { rendering: { manifest: "kind: B", hooks: [] } }, {}, /its rendering was altered/],
  ["a newer revision", {}, { history: [{ revision: 4, status: "deployed" }] }, /was at revision 3, deployed and now is at revision 4/],
  ["a revision that is pending now", {}, { history: [{ revision: 3, status: "pending-rollback" }] }, /now is at revision 3, pending-rollback/],
  ["a release that is gone", {}, { history: [] }, /now is not there/],
  ["a release that came up", { base: undefined }, {}, /was not there and now is at revision 3/],
];

for (const [what, plan, facts, says] of STALE) {
  test(`a plan is refused with ${what}`, () => {
    assert.throws(() => checkPlan({ ...PLAN, ...plan }, { ...FACTS, ...facts }), {
      code: "conflict",
      message: says,
    });
  });
}
