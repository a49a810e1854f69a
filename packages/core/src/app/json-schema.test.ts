import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { checkJson } from "./json-schema.ts";

describe("a value checked against a JSON Schema", () => {
  // biome-ignore format: a table reads as a table.
  const CASES: readonly (readonly [schema: unknown, fits: unknown[], fails: [unknown, string][]])[] = [
    [{ type: "string" }, ["a", "${{ 1 }}"], [[1, "must be a string, not the number 1"], [null, "must be a string, not nothing"]]],
    [{ type: ["string", "null"] }, ["a", null], [[[], "must be a string or null, not a list"]]],
    [{ type: "integer" }, [1, "${{ inputs.n }}"], [[1.5, "must be a whole number, not the number 1.5"], ["1", 'must be a whole number, not the string "1"']]],
    [{ type: "number", minimum: 1, exclusiveMaximum: 3 }, [1, 2.9], [[0, "must be at least 1"], [3, "must be less than 3"]]],
    [{ maximum: 3, exclusiveMinimum: 0 }, [3, "any"], [[4, "must be at most 3"], [0, "must be more than 0"]]],
    [{ type: "boolean" }, [true], [["yes", 'must be a boolean, not the string "yes"']]],
    [{ type: "object" }, [{}], [[[], "must be a mapping, not a list"]]],
    [{ type: "array", items: { type: "string" }, minItems: 1 }, [["a"]], [[[], "must have at least 1 items"], [["a", 1], "[1] must be a string, not the number 1"]]],
    [{ maxItems: 1, prefixItems: [{ type: "string" }] }, [["a"]], [[["a", "b"], "must have at most 1 items"], [[1], "[0] must be a string, not the number 1"]]],
    [{ enum: ["a", 1, null] }, ["a", 1, null], [["b", 'must be one of "a", 1, null']]],
    [{ const: "a" }, ["a"], [["b", 'must be "a"']]],
    [{ pattern: "^a+$" }, ["aa", 7], [["b", "must match ^a+$"]]],
    [{ pattern: "(" }, ["anything"], []],
    [{ minLength: 1, maxLength: 2 }, ["a"], [["", "must not be empty"], ["abc", "must have at most 2 letters"]]],
    [{ required: ["a"] }, [{ a: 1 }], [[{}, "`a` is missing"]]],
    [{ properties: { name: {} }, additionalProperties: false }, [{ name: 1 }], [[{ nmae: 1 }, "there is no key `nmae` here"]]],
    [{ additionalProperties: { type: "number" } }, [{ a: 1 }], [[{ a: "x" }, '.a must be a number, not the string "x"']]],
    [{ propertyNames: { pattern: "^[a-z]+$" } }, [{ a: 1 }], [[{ A: 1 }, ".A must match ^[a-z]+$"]]],
    [{ anyOf: [{ type: "string" }, { type: "number" }] }, ["a", 1], [[true, "must be a string, not the boolean true, or must be a number, not the boolean true"]]],
    [{ oneOf: [{ type: "string" }, { type: "object", required: ["a"], properties: { a: { type: "number" } } }] }, ["a", { a: 1 }], [[{ a: "x" }, '.a must be a number, not the string "x"']]],
    [{ allOf: [{ minimum: 1 }, { maximum: 2 }] }, [1], [[3, "must be at most 2"]]],
    [false, [], [[1, "nothing is allowed here"]]],
    [true, [1, "a", null], []],
  ];
  for (const [schema, fits, fails] of CASES) {
    test(`by ${JSON.stringify(schema)}`, () => {
      for (const value of fits) assert.deepEqual(checkJson(schema, value), []);
      for (const [value, expected] of fails) {
        const problems = checkJson(schema, value).map(({ path, message }) => {
          const at = path
            .map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`))
            .join("");
          return at ? `${at} ${message}` : message;
        });
        assert.deepEqual(problems, [expected]);
      }
    });
  }

  test("is told every problem, and what was probably meant", () => {
    const schema = {
      properties: { memory: { type: "number" }, cpus: { type: "number" } },
      additionalProperties: false,
    };

    assert.deepEqual(checkJson(schema, { memry: 1, cpus: "x" }, ["limits"]), [
      {
        path: ["limits"],
        key: "memry",
        message: "there is no key `memry` here",
        hint: "did you mean `memory`?",
      },
      { path: ["limits", "cpus"], message: 'must be a number, not the string "x"' },
    ]);
  });
});
