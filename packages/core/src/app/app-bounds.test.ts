// A text that somebody hostile wrote costs little more than one that nobody did. Work is bounded by counted
// steps: where there was none, these took from seconds to for ever, or ended the process.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PluginDescriptor } from "../plugin-descriptor.ts";
import { checkJson } from "./json-schema.ts";
import { parseApp } from "./parse-app.ts";
import { readYaml } from "./yaml-source.ts";

describe("a hostile exclave.yaml", () => {
  const said = (text: string) => readYaml(text, "f").problems.map(({ message }) => message);

  test("nested deeper than a stack is refused before anything recurses into it", () => {
    for (const text of [
      "[".repeat(20_000),
      "- ".repeat(20_000),
      `${"{a: ".repeat(10_000)}x`,
      Array.from({ length: 500 }, (_, depth) => `${" ".repeat(depth)}a:`).join("\n"),
    ]) {
      assert.deepEqual(said(text), [
        "this is too large to be read: its values are nested over 64 deep",
      ]);
    }
  });

  test("with a mapping of very many keys is read in time that grows with the keys", () => {
    const keys = Array.from({ length: 20_000 }, (_, n) => `k${n}: v`).join("\n");

    const { value, problems } = readYaml(keys, "f");

    assert.deepEqual(problems, []);
    assert.equal(Object.keys(value as object).length, 20_000);
    assert.deepEqual(said("a: 1\nb: 2\na: 3"), ["this is not YAML: Map keys must be unique"]);
  });

  test("with more text, values or aliases than anybody writes is refused", () => {
    assert.match(said(`a: ${"x".repeat(600_000)}`)[0] ?? "", /more than 524288 letters/);
    assert.match(said("- x\n".repeat(60_000))[0] ?? "", /more than 50000 values/);
    assert.match(
      said(`a: &a 1\nb:\n${"  - *a\n".repeat(2_000)}`)[0] ?? "",
      /more than 1000 aliases/,
    );
  });

  test("whose aliases stand for aliases is counted without being written out", () => {
    const level = (name: string, below: string) =>
      `${name}: &${name} [${Array(30).fill(below).join(", ")}]`;
    const names = Array.from("abcdefghij");
    const text = names
      .map((name, at) => level(name, at === 0 ? "x" : `*${names[at - 1]}`))
      .join("\n");

    assert.deepEqual(said(text), [
      "this is too large to be read: it has more than 50000 values, counting what its aliases stand for",
    ]);
  });

  test("full of mistakes is answered with the first of them, each of bounded length", () => {
    const long = "y".repeat(20_000);
    const components = Array.from({ length: 2_000 }, () => `  - *long`)
      .join("\n")
      .slice(0, 9_000);
    const text = `app: &long ${long}\ninputs: [{ name: ${"z".repeat(100_000)} }]\ncomponents:\n${components}`;

    const { problems } = parseApp(text, { file: "f", plugins: [] });

    assert.ok(problems.length > 0 && problems.length <= 200);
    assert.ok(JSON.stringify(problems).length < 1_000_000);
  });
});

describe("a hostile schema", () => {
  test("that would make an engine backtrack for ever is matched like any other", () => {
    const schema = { type: "string", pattern: "^(a+)+$" };

    const [problem] = checkJson(schema, `${"a".repeat(5_000)}!`);

    assert.equal(problem?.message, "must match ^(a+)+$");
  });

  test("of alternatives within alternatives over many values ends with its budget", () => {
    const nested = (depth: number): unknown =>
      depth === 0 ? { type: "string" } : { anyOf: Array(8).fill(nested(depth - 1)) };
    const schema = { type: "array", items: nested(5) };

    assert.throws(() => checkJson(schema, Array(1_000).fill(1)), { code: "too_large" });
  });

  test("is a problem of the app that it is too much to check, not a crash", () => {
    const nested = (depth: number): unknown =>
      depth === 0 ? { type: "string" } : { anyOf: Array(8).fill(nested(depth - 1)) };
    const plugin = PluginDescriptor.parse({
      version: 1,
      type: "x",
      configSchema: { type: "object", properties: { list: { type: "array", items: nested(5) } } },
      source: "none",
      outputs: {},
      operations: {},
    });
    const text = `app: a\ncomponents:\n  - name: a\n    type: x\n    list: [${Array(1_000).fill(1).join(",")}]`;

    const { problems } = parseApp(text, { file: "f", plugins: [plugin] });

    assert.match(problems[0]?.message ?? "", /takes more work than the limit/);
  });
});
