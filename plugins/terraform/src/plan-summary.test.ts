import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PlanDocument, summariseDrift, summarisePlan } from "./plan-summary.ts";

describe("summarisePlan", () => {
  // biome-ignore format: a table reads as a table.
  const table: [string, string[][], string, string][] = [
    ["nothing",            [["no-op"], ["read"]],                 "none",    "0 to add, 0 to change, 0 to destroy"],
    ["creating",           [["create"], ["create"]],              "change",  "2 to add, 0 to change, 0 to destroy"],
    ["updating",           [["update"], ["no-op"]],               "change",  "0 to add, 1 to change, 0 to destroy"],
    ["replacing",          [["delete", "create"]],                "replace", "1 to add, 0 to change, 1 to destroy"],
    ["replacing in front", [["create", "delete"], ["update"]],    "replace", "1 to add, 1 to change, 1 to destroy"],
    ["destroying",         [["delete"], ["create"]],              "destroy", "1 to add, 0 to change, 1 to destroy"],
    ["both",               [["delete"], ["delete", "create"]],    "destroy", "1 to add, 0 to change, 2 to destroy"],
    ["forgetting",         [["forget"]],                          "change",  "0 to add, 0 to change, 0 to destroy"],
  ];
  for (const [what, actions, risk, summary] of table) {
    test(`${what} is ${risk}: ${summary}`, () => {
      assert.deepEqual(summarisePlan(plan(actions)), { risk, summary });
    });
  }

  test("an output alone is a change, and is named as one", () => {
    const document = PlanDocument.parse({ output_changes: { url: { actions: ["update"] } } });

    assert.deepEqual(summarisePlan(document), {
      risk: "change",
      summary: "0 to add, 0 to change, 0 to destroy; 1 output to change",
    });
  });
});

describe("summariseDrift", () => {
  test("is silent when the world is as the state says", () => {
    assert.equal(summariseDrift(PlanDocument.parse({})), undefined);
    const document = PlanDocument.parse({ resource_drift: changes([["no-op"]]) });
    assert.equal(summariseDrift(document), undefined);
  });

  test("names what is gone and what was changed, five of them", () => {
    const actions = [["delete"], ["update"], ["update"], ["update"], ["update"], ["update"]];

    const summary = summariseDrift(PlanDocument.parse({ resource_drift: changes(actions) }));

    assert.match(summary ?? "", /^changed outside Exclave: r\.0 is gone, r\.1 was changed,/);
    assert.match(summary ?? "", / and 1 more$/);
  });
});

function plan(actions: string[][]): PlanDocument {
  return PlanDocument.parse({ resource_changes: changes(actions) });
}

function changes(actions: string[][]) {
  return actions.map((each, index) => ({ address: `r.${index}`, change: { actions: each } }));
}
