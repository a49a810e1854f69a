import assert from "node:assert/strict";
import { test } from "node:test";
import { isDeeperThan } from "./json-depth.ts";

test("depth is told of any value, however deep", () => {
  const nested = (depth: number): unknown => JSON.parse("[".repeat(depth) + "]".repeat(depth));

  assert.equal(isDeeperThan("x", 0), false);
  assert.equal(isDeeperThan({ a: [1] }, 2), false);
  assert.equal(isDeeperThan({ a: [1] }, 1), true);
  assert.equal(isDeeperThan(nested(64), 64), false);
  assert.equal(isDeeperThan(nested(1_000_000), 64), true);
});
