import assert from "node:assert/strict";
import { test } from "node:test";
import { closest, editDistance, suggest } from "./suggest.ts";

const KEYS = ["name", "type", "source", "dependsOn"];

// biome-ignore format: a table reads as a table.
const CASES: Record<string, string | undefined> = {
  sorce: "source", soruce: "source", depends_on: "dependsOn", dependson: "dependsOn", typ: "type",
  nmae: "name", values: undefined, x: undefined,
};
for (const [word, expected] of Object.entries(CASES)) {
  test(`${word} probably means ${expected ?? "nothing we know"}`, () => {
    assert.equal(closest(word, KEYS), expected);
  });
}

test("a swap of neighbours is one step", () => {
  assert.equal(editDistance("ab", "ba"), 1);
  assert.equal(editDistance("kitten", "sitting"), 3);
  assert.equal(editDistance("", "abc"), 3);
});

test("lists what there is when nothing is close and the list is short", () => {
  assert.equal(suggest("zebra", ["db", "api"]), "there is `db`, `api`");
  assert.equal(suggest("zebra", []), undefined);
});
