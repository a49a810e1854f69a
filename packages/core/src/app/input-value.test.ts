import assert from "node:assert/strict";
import { test } from "node:test";
import { inputValue } from "./input-value.ts";

// biome-ignore format: a table reads as a table.
const TABLE = [
  ["string", "1", "1"], ["string", "true", "true"], ["string", 1, 1],
  ["number", "1", 1], ["number", "-2.5", -2.5], ["number", "007", 7], ["number", "many", "many"], ["number", "", ""], ["number", 3, 3],
  ["boolean", "true", true], ["boolean", "false", false], ["boolean", "yes", "yes"], ["boolean", true, true],
] as const;

for (const [type, given, meant] of TABLE) {
  test(`${JSON.stringify(given)} for a ${type} is ${JSON.stringify(meant)}`, () => {
    assert.equal(inputValue({ type }, given), meant);
  });
}
