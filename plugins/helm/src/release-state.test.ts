import assert from "node:assert/strict";
import { test } from "node:test";
import { decideAfterFailure, decideHealing, type Revision } from "./release-state.ts";

// biome-ignore format: a table reads as a table.
const TABLE: readonly (readonly [statuses: readonly string[], isOurs: boolean, expected: object])[] = [
  [[], false, { kind: "none" }],
  [["deployed"], false, { kind: "none" }],
  [["superseded", "deployed"], true, { kind: "none" }],
  [["deployed", "failed"], true, { kind: "none" }],
  [["uninstalled"], true, { kind: "none" }],
  [["pending-install"], true, { kind: "uninstall" }],
  [["pending-install"], false, { kind: "foreign" }],
  [["failed", "pending-upgrade"], true, { kind: "uninstall" }],
  [["deployed", "pending-upgrade"], true, { kind: "rollback", to: 1 }],
  [["superseded", "deployed", "pending-upgrade"], true, { kind: "rollback", to: 2 }],
  [["superseded", "deployed", "failed", "pending-rollback"], true, { kind: "rollback", to: 2 }],
  // Killed between the two writes that hand over from one revision to the next.
  [["superseded", "pending-upgrade"], true, { kind: "rollback", to: 1 }],
  [["deployed", "pending-upgrade"], false, { kind: "foreign" }],
  [["deployed", "uninstalling"], true, { kind: "uninstall" }],
  [["deployed", "uninstalling"], false, { kind: "uninstall" }],
];

for (const [statuses, isOurs, expected] of TABLE) {
  const whose = isOurs ? "ours" : "somebody else's";
  test(`a release with ${statuses.join(", ") || "no revision"}, ${whose}, is healed by ${JSON.stringify(expected)}`, () => {
    const { because, ...healing } = decideHealing({ history: revisions(statuses), isOurs });

    assert.deepEqual(healing, expected);
    assert.ok(because.length > 0);
  });
}

test("an upgrade that failed goes back to the last whole revision, a first install goes away", () => {
  const before = revisions(["superseded", "deployed"]);

  assert.deepEqual(decideAfterFailure(before, revisions(["superseded", "deployed", "failed"])), {
    kind: "rollback",
    to: 2,
  });
  assert.deepEqual(decideAfterFailure([], revisions(["failed"])), { kind: "uninstall" });
});

test("an upgrade that failed before it touched the release leaves it alone", () => {
  const before = revisions(["deployed"]);

  assert.deepEqual(decideAfterFailure(before, before), { kind: "leave" });
  assert.deepEqual(decideAfterFailure([], []), { kind: "leave" });
});

function revisions(statuses: readonly string[]): Revision[] {
  return statuses.map((status, index) => ({ revision: index + 1, status }));
}
