import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { evaluateConfig, evaluateTemplate, type Scope } from "./evaluate-config.ts";
import { parseTemplate } from "./template.ts";

const scope: Scope = {
  install: { id: "iaaaaaaaaaaaaaaaa", name: "acme" },
  inputs: { text: `${"a".repeat(40)}!`, many: Array.from({ length: 1_000 }, (_, n) => n) },
  secrets: {},
  sandbox: {},
  components: { db: { outputs: { hosts: ["a", "b"] } } },
};

describe("a hostile expression", () => {
  test("that matches text is matched in bounded time, at the root and within", () => {
    const pattern = "'^(a+)+$'";
    assert.equal(evaluateTemplate(`\${{ inputs.text.matches(${pattern}) }}`, scope), false);
    assert.equal(evaluateTemplate(`\${{ !inputs.text.matches(${pattern}) }}`, scope), true);
    assert.equal(evaluateTemplate("${{ 'ab12'.matches('^[a-z]+[0-9]+$') }}", scope), true);
    assert.deepEqual(
      evaluateTemplate("${{ components.db.outputs.hosts.filter(h, h.matches('a')) }}", scope),
      ["a"],
    );
    assert.throws(() => evaluateTemplate("${{ 'a'.matches('(?=a)') }}", scope), {
      code: "invalid",
      message: /look-ahead cannot be matched in bounded time/,
    });
    assert.throws(() => evaluateTemplate("${{ inputs.many.matches('a') }}", scope), {
      code: "invalid",
    });
  });

  const doubled = (seed: string, join: (name: string) => string, times: number) => {
    const names = Array.from({ length: times }, (_, n) => `v${n}`);
    const open = names.map(
      (name, n) => `cel.bind(${name}, ${n === 0 ? seed : join(`v${n - 1}`)}, `,
    );
    return `\${{ ${open.join("")}v${times - 1}${")".repeat(times)} }}`;
  };

  // biome-ignore format: a table
  const EXPENSIVE: Record<string, string> = {
    "loops within loops": "${{ inputs.many.map(a, inputs.many.map(b, inputs.many.map(c, a * b * c))) }}",
    "loops whose errors do not end them": "${{ inputs.many.exists(a, inputs.many.all(b, inputs.many.exists(c, a == -b))) }}",
    "text that doubles": doubled("'0123456789abcdef'", (v) => `${v} + ${v}`, 30),
    "lists that double": doubled("[1]", (v) => `${v} + ${v}`, 30),
    "lists of the same list": doubled("[1, 2]", (v) => `[${v}, ${v}]`, 25),
    "comparing lists of the same list": doubled("[1, 2]", (v) => `[${v}, ${v}]`, 25).replace(/v24\)/, "v24 == v24)"),
    "very many calls": "${{ inputs.many.map(a, inputs.many.map(b, timestamp('2026-01-01T00:00:00Z').getHours('Europe/Berlin'))) }}",
    "an answer that hides it": "${{ inputs.many.all(a, inputs.many.all(b, inputs.many.all(c, true))) || true }}",
  };

  for (const [what, expression] of Object.entries(EXPENSIVE)) {
    test(`of ${what} ends with its budget`, () => {
      assert.throws(() => evaluateConfig({ value: expression }, scope), {
        code: "too_large",
        message: /^value: evaluating the expressions of the configuration takes more work/,
      });
    });
  }

  test("spends from one budget with all others of its configuration", () => {
    const one = "${{ inputs.many.map(a, a + 1.0) }}";

    assert.doesNotThrow(() => evaluateConfig({ value: one }, scope));
    assert.throws(() => evaluateConfig({ values: Array(500).fill(one) }, scope), {
      code: "too_large",
    });
  });

  test("of more letters or parts than anybody writes is not parsed", () => {
    const [long] = parseTemplate(`\${{ '${"x".repeat(9_000)}' }}`).problems;
    const [wide] = parseTemplate(`\${{ ${Array(2_100).fill("1").join("+")} }}`).problems;
    const [deep] = parseTemplate(`\${{ ${"(".repeat(200)}1${")".repeat(200)} }}`).problems;

    assert.match(long?.message ?? "", /at most 8192 letters/);
    assert.match(wide?.message ?? "", /Exceeded maxAstNodes/);
    assert.match(deep?.message ?? "", /Exceeded maxDepth/);
  });
});
