import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PluginDescriptor } from "../plugin-descriptor.ts";
import { appJsonSchema } from "./app-json-schema.ts";
import { checkJson } from "./json-schema.ts";

const command = PluginDescriptor.parse({
  version: 1,
  type: "command",
  operations: {},
  configSchema: {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    properties: {
      command: { type: "array", items: { type: "string" } },
      retries: { type: "integer", description: "How often" },
    },
    required: ["command"],
  },
  outputs: "open",
  source: "required",
});

describe("the JSON Schema for editors", () => {
  test("knows the keys of the file and refuses others", () => {
    const schema = appJsonSchema();

    assert.deepEqual(checkJson(schema, { app: "a", components: [{ name: "a", type: "x" }] }), []);
    const [problem] = checkJson(schema, {
      app: "a",
      components: [{ name: "a", type: "x" }],
      inptus: [],
    });
    assert.equal(problem?.hint, "did you mean `inputs`?");
  });

  test("asks only for what has no default", () => {
    assert.deepEqual(appJsonSchema()["required"], ["app", "components"]);
  });

  test("has the plugin's keys for components of its type", () => {
    const branch = branchOf(appJsonSchema([command]));

    assert.deepEqual(branch.if, { properties: { type: { const: "command" } }, required: ["type"] });
    const fine = { name: "a", type: "command", source: ".", command: ["x"] };
    assert.deepEqual(checkJson(branch.then, fine), []);
    assert.deepEqual(messages(checkJson(branch.then, { name: "a", retires: 1 })), [
      "`command` is missing",
      "`source` is missing",
      "there is no key `retires` here",
    ]);
  });

  test("lets an expression stand for any value", () => {
    const { then } = branchOf(appJsonSchema([command]));
    const retries = (then["properties"] as Record<string, unknown>)["retries"];

    assert.deepEqual(retries, {
      description: "How often",
      anyOf: [{ type: "integer" }, { type: "string", pattern: "\\$\\{\\{" }],
    });
  });

  test("is plain JSON", () => {
    const schema = appJsonSchema([command]);

    assert.deepEqual(JSON.parse(JSON.stringify(schema)), schema);
  });
});

interface Branch {
  readonly if: unknown;
  readonly then: Record<string, unknown>;
}

function branchOf(schema: Record<string, unknown>): Branch {
  const properties = schema["properties"] as { components: { items: { allOf: Branch[] } } };
  const [branch] = properties.components.items.allOf;
  assert.ok(branch);
  return branch;
}

function messages(problems: readonly { readonly message: string }[]): string[] {
  return problems.map(({ message }) => message);
}
