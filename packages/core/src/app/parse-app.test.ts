import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { PluginDescriptor } from "../plugin-descriptor.ts";
import { parseApp } from "./parse-app.ts";
import { formatProblem } from "./problem.ts";

describe("exclave.yaml", () => {
  test("becomes a checked value", () => {
    const { app, problems } = parseApp(CRM, { file: "exclave.yaml", plugins: plugins() });

    assert.deepEqual(problems, []);
    assert.equal(app?.app, "crm");
    assert.deepEqual(app?.sandbox, { use: "aws-eks", vars: { cluster_version: "1.33" } });
    assert.deepEqual(app?.inputs, [
      { name: "domain", description: "Where customers reach it", type: "string", required: true },
    ]);
    assert.deepEqual(app?.secrets, [
      { name: "license_key", required: true },
      { name: "session_key", required: false, generate: { bytes: 32, encoding: "hex" } },
    ]);
    assert.deepEqual(app?.components[2], {
      name: "api",
      type: "helm",
      source: "./charts/api",
      dependsOn: ["cache"],
      statusEverySeconds: 30,
      config: {
        values: {
          image: '${{ components["api-image"].outputs.image }}',
          databaseUrl: "${{ components.database.outputs.url }}",
          host: "${{ inputs.domain }}",
          key: "${{ secrets.session_key }}",
        },
      },
      uses: { components: ["api-image", "database"], inputs: ["domain"], secrets: ["session_key"] },
      needs: ["cache", "api-image", "database"],
    });
  });

  test("is a value that can be stored and read back", () => {
    const { app } = parseApp(CRM, { file: "exclave.yaml" });

    assert.deepEqual(JSON.parse(JSON.stringify(app)), app);
  });

  test("needs little", () => {
    const { app } = parseApp("app: x\ncomponents: [{ name: a, type: command }]", { file: "f" });

    assert.deepEqual(app?.sandbox, { use: "local", vars: {} });
    assert.deepEqual(app?.components[0]?.config, {});
  });

  test("is reported with all its mistakes at once, in order", () => {
    const text = lines(
      "app: CRM",
      "sandbx: { use: local }",
      "inputs:",
      "  - { name: domain, type: text }",
      "  - { name: domain }",
      "components:",
      "  - name: db",
      "    type: comand",
      "  - name: api",
      "    type: command",
      "    dependsOn: [bd]",
      "    command: ${{ inputs.domian }}",
    );

    assert.deepEqual(problemsIn(text), [
      "f:1:6: must be lower-case letters, digits and dashes, starting with a letter, at most 40",
      "f:2:1: there is no key `sandbx` here; did you mean `sandbox`?",
      "f:4:27: must be one of string, number, boolean",
      "f:5:13: there is already an input `domain`",
      "f:8:11: there is no plugin for type `comand`; did you mean `command`?",
      "f:11:17: there is no component `bd`; did you mean `db`?",
      "f:12:25: there is no input `domian`; did you mean `domain`?",
    ]);
  });

  // biome-ignore format: a table reads as a table.
  const MISTAKES: Record<string, [text: string, ...problems: string[]]> = {
    "nothing at all":            ["", "f:1:1: must be a mapping"],
    "a list":                    ["- a", "f:1:1: must be a mapping"],
    "broken YAML":               ["app: [a", "f:1:8: this is not YAML: Flow sequence in block collection must be sufficiently indented and end with a ]"],
    "a key twice":               ["app: a\napp: b\n", "f:2:1: this is not YAML: Map keys must be unique"],
    "an alias to nothing":       ["app: *x\n", "f:1:6: this is not YAML: there is no anchor for the alias *x"],
    "an alias inside itself":    ["app: &x [*x]\n", "f:1:10: this is not YAML: the alias *x contains itself"],
    "too many aliases":          [bomb(), "f:1:1: this is too large to be read: it has more than 50000 values, counting what its aliases stand for"],
    "a number that is none":     [one("retries: .nan"), "f:5:14: this is not YAML: this value has no JSON form"],
    "bytes":                     [one("command: !!binary aGk="), "f:5:23: this is not YAML: this value has no JSON form"],
    "a tag nobody knows":        [one("command: !secret x"), "f:5:14: this is not YAML: Unresolved tag: !secret"],
    "a key that is a list":      ["? [a]\n: b\n", "f:1:3: this is not YAML: a key must be a single word"],
    "a key of the language":     [one("__proto__: { a: 1 }"), "f:5:5: this is not YAML: `__proto__` cannot be a key"],
    "two documents":             ["app: a\n---\napp: b\n", "f:2:1: this is not YAML: there is more than one document"],
    "no components":             ["app: a\ncomponents: []", "f:2:13: must not be empty"],
    "neither name nor type":     ["app: a\ncomponents: [{ }]", "f:2:14: `name` is missing", "f:2:14: `type` is missing"],
    "a list for a mapping":      ["app: a\nsandbox: []\ncomponents: [{ name: a, type: command }]", "f:2:10: must be a mapping"],
    "a mapping for a list":      ["app: a\ncomponents: { name: a }", "f:2:13: must be a list"],
    "no app":                    ["components: [{ name: a, type: command }]", "f:1:1: `app` is missing"],
    "an absolute source":        [one("source: /etc"), "f:5:13: must be a path inside the directory of exclave.yaml"],
    "a source that climbs":      [one("source: ../x"), "f:5:13: must be a path inside the directory of exclave.yaml"],
    "a status far too often":    [one("statusEverySeconds: 1"), "f:5:25: must be at least 5"],
    "a status that is no number":[one("statusEverySeconds: often"), "f:5:25: must be a number"],
    "a name twice":              ["app: a\ncomponents: [{ name: a, type: command }, { name: a, type: command }]", "f:2:50: there is already a component `a`"],
    "a misspelt key":            [one("comand: x"), "f:5:5: there is no key `comand` here; did you mean `command`?"],
    "a misspelt key of ours":    [one("depends_on: [x]"), "f:5:5: there is no key `depends_on` here; did you mean `dependsOn`?"],
    "a value of a wrong type":   [one("retries: many"), "f:5:14: must be a whole number, not the string \"many\""],
    "a value too large":         [one("retries: 11"), "f:5:14: must be at most 10"],
    "a size that is none":       [one("limits: { memory: 12 }"), "f:5:23: must be a string"],
    "a size without a unit":     [one("limits: { memory: \"12\" }"), "f:5:23: must be a size such as 512MiB or 2GiB"],
    "too few processes":         [one("limits: { processes: 1 }"), "f:5:26: must be at least 8"],
    "a key too deep":            [one("limits: { memry: 1 }"), "f:5:15: there is no key `memry` here; did you mean `memory`?"],
    "no required key":           ["app: a\ncomponents:\n  - name: a\n    type: helm\n    source: ./c", "f:3:5: `values` is missing"],
    "no required source":        ["app: a\ncomponents:\n  - name: a\n    type: helm\n    values: {}", "f:3:5: `source` is missing: a component of type helm is built from one"],
    "a source where none is":    ["app: a\ncomponents:\n  - name: a\n    type: image\n    source: ./c", "f:5:5: a component of type image has no source"],
    "a default of another type": ["app: a\ninputs: [{ name: n, type: number, default: x }]\ncomponents: [{ name: a, type: command }]", "f:2:44: the default must be a number, as the input is"],
    "an expression elsewhere":   ["app: a\nsandbox: { use: local, vars: { a: \"${{ inputs.x }}\" } }\ncomponents: [{ name: a, type: command }]", "f:2:36: expressions are only evaluated in the configuration of components"],
    "an output that is not":     [one("command: ${{ components.me.outputs.x }}"), "f:3:11: these components need each other, so none can be first: me → me", "f:5:40: there is no output of me `x`; there is `code`"],
    "types that do not fit":     [`inputs: [{ name: n, type: number }]\n${one("command: ${{ 'a' + inputs.n }}")}`, "f:6:18: no such overload: string + double"],
  };
  for (const [mistake, [text, ...expected]] of Object.entries(MISTAKES)) {
    test(`with ${mistake} is refused with place and reason`, () => {
      assert.deepEqual(problemsIn(text), expected);
    });
  }

  test("with components in a circle is refused, the circle named in full", () => {
    const text = lines(
      "app: a",
      "components:",
      "  - { name: a, type: command, dependsOn: [b] }",
      "  - { name: b, type: command, command: '${{ components.c.outputs.code }}' }",
      "  - { name: c, type: command, dependsOn: [a] }",
    );

    assert.deepEqual(problemsIn(text), [
      "f:3:13: these components need each other, so none can be first: a → b → c → a",
    ]);
  });

  test("may hold an expression where the plugin wants a number", () => {
    assert.deepEqual(problemsIn(one('retries: "${{ 1 + 1 }}"')), []);
  });

  test("never makes the reader throw, however it is mangled, and every problem has a place in it", () => {
    const piece = fc.constantFrom(
      "${{",
      "}}",
      ":",
      "- ",
      "\n",
      "  ",
      "&a ",
      "*a",
      "'",
      '"',
      "[",
      "}",
      "|\n",
      "!x ",
    );
    const edit = fc.record({ at: fc.nat(CRM.length), drop: fc.nat(12), put: piece });
    fc.assert(
      fc.property(fc.array(edit, { minLength: 1, maxLength: 4 }), (edits) => {
        let text = CRM;
        for (const { at, drop, put } of edits)
          text = text.slice(0, at) + put + text.slice(at + drop);

        const { app, problems } = parseApp(text, { file: "f", plugins: plugins() });

        assert.equal(app === undefined, problems.length > 0);
        const rows = text.split("\n");
        for (const { line, column } of problems) {
          assert.ok(
            column >= 1 && column <= (rows[line - 1]?.length ?? -1) + 1,
            `${line}:${column}`,
          );
        }
      }),
      { numRuns: 300 },
    );
  });

  test("takes a vendor's own plugin by its word", () => {
    const text = lines(
      "app: a",
      "plugins: [{ type: queue, source: ./queue }]",
      "components: [{ name: q, type: queue, anything: { goes: 1 } }]",
    );

    assert.deepEqual(problemsIn(text), []);
  });

  test("without plugins is checked as far as it goes", () => {
    const text = one("whatever: ${{ components.nope.outputs.x }}\n    dependson: [x]");

    const { problems } = parseApp(text, { file: "f" });

    assert.deepEqual(problems.map(formatProblem), [
      "f:5:30: there is no component `nope`; there is `me`",
      "f:6:5: there is no key `dependson` here; did you mean `dependsOn`?",
    ]);
  });
});

describe("the place of a mistake inside a string", () => {
  // biome-ignore format: a table reads as a table.
  const STRINGS: Record<string, [text: string, place: string]> = {
    "plain":                    ["command: a ${{ inputs.nope }}", "5:27"],
    "in double quotes":         ['command: "a ${{ inputs.nope }}"', "5:28"],
    "after an escape":          ['command: "\\"\\u00e9\\n ${{ inputs.nope }}"', "5:37"],
    "in single quotes":         ["command: 'it''s ${{ inputs.nope }}'", "5:32"],
    "in a literal block":       ["command: |\n      first\n      and ${{ inputs.nope }}", "7:22"],
    "in an indented line":      ["command: |\n      first\n        and ${{ inputs.nope }}", "7:24"],
    "in a folded block":        ["command: >-\n      first\n      and ${{ inputs.nope }}", "7:22"],
    "over several plain lines": ["command: first\n      and ${{ inputs.nope }}", "6:22"],
    "in a list":                ["command: [a, '${{ inputs.nope }}']", "5:30"],
    "within an expression over several lines": ["command: |\n      ${{\n        inputs.nope\n      }}", "7:16"],
  };
  for (const [where, [text, place]] of Object.entries(STRINGS)) {
    test(`is found ${where}`, () => {
      const { problems } = parseApp(one(text), { file: "f" });

      assert.deepEqual(problems.map(formatProblem), [`f:${place}: there is no input \`nope\``]);
    });
  }

  test("is found for wrong syntax too", () => {
    const { problems } = parseApp(one("command: x ${{ inputs. }}"), { file: "f" });

    assert.deepEqual(problems.map(formatProblem), [
      "f:5:28: this is not a CEL expression: Expected IDENTIFIER, got EOF",
    ]);
  });
});

const CRM = `app: crm
sandbox: { use: aws-eks, vars: { cluster_version: "1.33" } }
inputs:
  - { name: domain, description: Where customers reach it, required: true }
secrets:
  - { name: license_key, required: true }
  - { name: session_key, generate: {} }
components:
  - { name: database, type: terraform, source: ./terraform/database }
  - { name: api-image, type: docker, source: ./api }
  - name: api
    type: helm
    source: ./charts/api
    dependsOn: [cache]
    statusEverySeconds: 30
    values:
      image: \${{ components["api-image"].outputs.image }}
      databaseUrl: \${{ components.database.outputs.url }}
      host: \${{ inputs.domain }}
      key: \${{ secrets.session_key }}
  - { name: cache, type: command }
`;

/** An app whose one component says this from line 5 on, indented as its keys are. */
function one(rest: string): string {
  return lines("app: a", "components:", "  - name: me", "    type: command", `    ${rest}`);
}

/** Few letters that would become very many. */
function bomb(): string {
  const level = (name: string, below: string) =>
    `${name}: &${name} [${Array(9).fill(below).join(", ")}]`;
  const levels = Array.from("bcdef").map((name, index) => level(name, `*${"abcde"[index]}`));
  return lines(level("a", "x"), ...levels);
}

function lines(...text: string[]): string {
  return text.join("\n");
}

function problemsIn(text: string): string[] {
  return parseApp(text, { file: "f", plugins: plugins() }).problems.map(formatProblem);
}

function plugins(): PluginDescriptor[] {
  const plugin = (type: string, rest: object) =>
    PluginDescriptor.parse({
      version: 1,
      type,
      operations: {},
      configSchema: {},
      outputs: "open",
      ...rest,
    });
  return [
    plugin("terraform", { source: "required" }),
    plugin("docker", { outputs: { image: { type: "string" } } }),
    plugin("image", { source: "none", configSchema: { properties: { ref: { type: "string" } } } }),
    plugin("helm", {
      source: "required",
      configSchema: {
        type: "object",
        properties: { values: { type: "object" } },
        required: ["values"],
      },
    }),
    plugin("command", {
      outputs: { code: { type: "number" } },
      configSchema: {
        properties: {
          command: {},
          retries: { type: "integer", minimum: 0, maximum: 10 },
        },
      },
    }),
  ];
}
