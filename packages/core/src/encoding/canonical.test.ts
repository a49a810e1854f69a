import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { canonicalJson } from "./canonical.ts";

describe("canonical JSON", () => {
  // biome-ignore format: a table reads as a table.
  const CASES: readonly (readonly [unknown, string])[] = [
    [{ b: 1, a: [true, null, "x"] },        '{"a":[true,null,"x"],"b":1}'],
    [{ a: undefined, b: 1 },                '{"b":1}'],
    [-0,                                    "0"],
    [1e21,                                  "1e+21"],
    [0.1 + 0.2,                             "0.30000000000000004"],
    ["\u20ac$\u000f\nA'B\"\\",               '"\u20ac$\\u000f\\nA\'B\\"\\\\"'],
    // RFC 8785, section 3.2.3: by UTF-16 code unit, so the emoji comes before U+FB33.
    [{ "\ufb33": 1, "\ud83d\ude00": 2, "\u20ac": 3, "1": 4, "\r": 5 }, '{"\\r":5,"1":4,"\u20ac":3,"\ud83d\ude00":2,"\ufb33":1}'],
  ];
  for (const [value, expected] of CASES) {
    test(`of ${expected}`, () => {
      assert.equal(canonicalJson(value), expected);
    });
  }

  test("says the same as the value, whatever the order of keys", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = canonicalJson(value);

        assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
        assert.equal(canonicalJson(reversed(value)), text);
      }),
    );
  });

  for (const value of [Number.NaN, Number.POSITIVE_INFINITY, 1n, () => 1, [undefined]]) {
    test(`does not exist for ${typeof value} ${String(value)}`, () => {
      assert.throws(() => canonicalJson(value), TypeError);
    });
  }
});

function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, member]) => [key, reversed(member)]),
  );
}
