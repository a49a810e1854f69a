import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../failure.ts";
import { createTemplateChecker, type Declarations, type ValueType } from "./check-template.ts";
import { evaluateConfig, evaluateTemplate, type Scope } from "./evaluate-config.ts";
import { references, usesOf } from "./references.ts";
import { expressionsOf, parseTemplate } from "./template.ts";

const scope: Scope = {
  install: { id: "iacmeaaaaaaaaaaaa", name: "acme" },
  inputs: { domain: "crm.example", replicas: 3, debug: false, tags: ["a", "b"] },
  secrets: { license_key: "s3cr3t" },
  sandbox: { region: "eu-1" },
  components: {
    db: { outputs: { url: "db://here", port: 5432, replica: null } },
    "api-image": { outputs: { image: "api@sha256:1" } },
  },
};

describe("a template", () => {
  test("is text and expressions, each with its place", () => {
    const text = "https://${{ inputs.domain }}/${{install.name}}";

    const template = parseTemplate(text);

    assert.deepEqual(template.problems, []);
    assert.deepEqual(
      template.parts.map((part) => (typeof part === "string" ? part : part.source)),
      ["https://", " inputs.domain ", "/", "install.name"],
    );
    for (const { source, offset } of expressionsOf(template)) {
      assert.equal(text.slice(offset, offset + source.length), source);
    }
  });

  test("knows braces that belong to CEL", () => {
    const sources = ['{"a": {"b": 1}}', '"}}" + "x"', "'}}'", '"\\"}}"', 'r"\\d}}"', '"""a"}}"""'];

    for (const source of sources) {
      const { parts, problems } = parseTemplate(`\${{${source}}} and more`);
      assert.deepEqual(problems, [], source);
      assert.equal(typeof parts[0] !== "string" && parts[0]?.source, source);
      assert.equal(parts[1], " and more");
    }
  });

  test("says where its syntax is wrong", () => {
    assert.deepEqual(problemsOf("ab ${{ inputs.domain"), [[3, "this `${{` has no `}}`"]]);
    assert.deepEqual(problemsOf("${{ }}"), [[3, "there is no expression between the braces"]]);
    assert.deepEqual(problemsOf("${{ 1 + }}"), [
      [8, "this is not a CEL expression: Unexpected token: EOF"],
    ]);
    assert.equal(problemsOf("${{ a b }} ${{ c d }}").length, 2);
  });

  test("never throws, whatever the text", () => {
    const piece = fc.constantFrom("${{", "}}", "{", "}", '"', "'", "a", ".", "\\", " ", "$", "[1]");
    fc.assert(
      fc.property(
        fc.array(piece).map((pieces) => pieces.join("")),
        (text) => {
          const { parts, problems } = parseTemplate(text);

          references(text);
          const whole = text === "" ? [] : [text];
          if (!text.includes("${{"))
            assert.deepEqual({ parts, problems }, { parts: whole, problems: [] });
        },
      ),
    );
  });
});

describe("references", () => {
  // biome-ignore format: a table reads as a table.
  const CASES: Record<string, readonly string[]> = {
    'components["api-image"].outputs.image':               ["component api-image image"],
    "components.db.outputs.url":                           ["component db url"],
    'components.db["outputs"]["url"]':                     ["component db url"],
    "components.db.outputs":                               ["component db "],
    "components.db.outputs.list[0].name":                  ["component db list"],
    "inputs.domain + secrets.license_key":                 ["input domain", "secret license_key"],
    "has(inputs.domain) ? inputs.domain : install.name":   ["input domain", "input domain", "install"],
    "inputs.tags.map(t, t + sandbox.region)":              ["input tags", "sandbox"],
    "inputs.tags.map(inputs, inputs.x + secrets.a)":       ["input tags", "secret a"],
    "cel.bind(x, inputs.domain, x + x)":                   ["input domain"],
    "cel.bind(inputs, inputs.domain, inputs.y)":           ["input domain"],
    "inputs.domain.startsWith(secrets.a)":                 ["input domain", "secret a"],
    "components.db.outputs.map[inputs.key].x":             ["component db map", "input key"],
    '{inputs.a: [secrets.b, "components.db.outputs.c"]}':  ["input a", "secret b"],
    "!(inputs.a && -inputs.b > 1 || inputs.c in inputs.d)":["input a", "input b", "input c", "input d"],
    "[inputs.a][0].b":                                     ["input a"],
    "size(inputs.a)":                                      ["input a"],
    "nonsense.x":                                          ["unknown nonsense"],
  };
  for (const [source, expected] of Object.entries(CASES)) {
    test(`of ${source}`, () => {
      const { references: found, problems } = references(`\${{ ${source} }}`);

      assert.deepEqual(problems, []);
      const shown = found.map((reference) => {
        const name = "name" in reference ? ` ${reference.name}` : "";
        const output = reference.kind === "component" ? ` ${reference.output ?? ""}` : "";
        return `${reference.kind}${name}${output}`;
      });
      assert.deepEqual(shown.toSorted(), expected.toSorted());
    });
  }

  // biome-ignore format: a table reads as a table.
  const UNCLEAR: Record<string, RegExp> = {
    "components[inputs.which].outputs.url": /components must be read by name/,
    "size(components)":                     /components must be read by name/,
    "inputs[install.name]":                 /inputs must be read by name/,
    "secrets":                              /secrets must be read by name/,
    "components.db.url":                    /of component db, only its outputs can be read/,
    "components.db":                        /of component db, only its outputs can be read/,
  };
  for (const [source, message] of Object.entries(UNCLEAR)) {
    test(`cannot be told from ${source}`, () => {
      const { problems } = references(`\${{ ${source} }}`);

      assert.equal(problems.length, 1);
      assert.match(problems[0]?.message ?? "", message);
    });
  }

  test("of a whole configuration are sorted, each once", () => {
    const config = {
      url: "${{ components.db.outputs.url }}/${{ inputs.b }}",
      list: ["${{ inputs.a }}", { deep: "${{ inputs.b + secrets.k }}" }, 7, null],
    };

    assert.deepEqual(usesOf(config), { components: ["db"], inputs: ["a", "b"], secrets: ["k"] });
  });
});

describe("evaluation", () => {
  // biome-ignore format: a table reads as a table.
  const CASES: readonly (readonly [string, unknown])[] = [
    ["no expression",                                   "no expression"],
    ["${{ components.db.outputs.url }}",                "db://here"],
    ['${{ components["api-image"].outputs.image }}',    "api@sha256:1"],
    ["${{ inputs.replicas }}",                          3],
    ["${{ inputs.replicas + 1 }}",                      4],
    ["${{ 2 * inputs.replicas }}",                      6],
    ["${{ 1 + 1 }}",                                    2],
    ["${{ inputs.debug }}",                             false],
    ["${{ components.db.outputs.replica }}",            null],
    ["${{ inputs.tags }}",                              ["a", "b"]],
    ['${{ {"a": 1, "b": [inputs.domain]} }}',           { a: 1, b: ["crm.example"] }],
    ["https://${{ inputs.domain }}:${{ inputs.replicas }}", "https://crm.example:3"],
    ["${{ inputs.tags }}!",                             '["a","b"]!'],
    ["${{ has(inputs.nope) ? 1 : 2 }}",                 2],
    ["${{ inputs.tags.map(t, t + '!') }}",              ["a!", "b!"]],
  ];
  for (const [text, expected] of CASES) {
    test(`of ${text}`, () => {
      assert.deepEqual(evaluateTemplate(text, scope), expected);
    });
  }

  test("reaches every depth and leaves the rest as it was", () => {
    const config = { a: { b: ["${{ inputs.domain }}", 1, null, true] }, c: "plain" };

    assert.deepEqual(evaluateConfig(config, scope), {
      a: { b: ["crm.example", 1, null, true] },
      c: "plain",
    });
  });

  test("names the place and the expression when there is no value, and no secret", () => {
    const config = { values: { urls: ["x", "${{ secrets.license_key + inputs.nope }}"] } };

    assert.throws(
      () => evaluateConfig(config, scope),
      (reason) =>
        reason instanceof Failure &&
        reason.code === "invalid" &&
        reason.message ===
          "values.urls[1]: ${{ secrets.license_key + inputs.nope }} has no value: No such key: nope",
    );
  });

  for (const source of ["inputs.constructor", "inputs.__proto__", "b'bytes'", "9007199254740993"]) {
    test(`refuses ${source}`, () => {
      assert.throws(() => evaluateTemplate(`\${{ ${source} }}`, scope), Failure);
    });
  }
});

describe("checks before anything runs", () => {
  const check = createTemplateChecker(declarations());

  test("find nothing wrong with what is declared", () => {
    const fine = [
      "${{ inputs.domain + components.db.outputs.url }}",
      "${{ components.infra.outputs.whatever + 1 }}",
      "${{ inputs.replicas * 2 + 1 }}",
      '${{ components["api-image"].outputs.image }}:${{ secrets.license_key }}',
      "${{ install.name + install.id + sandbox.region }}",
    ];

    assert.deepEqual(fine.flatMap(check), []);
  });

  // biome-ignore format: a table reads as a table.
  const WRONG: Record<string, [number, string, string | undefined]> = {
    "${{ components.dv.outputs.url }}": [15, "there is no component `dv`", "did you mean `db`?"],
    "${{ components.db.outputs.ulr }}": [26, "there is no output of db `ulr`", "did you mean `url`?"],
    "${{ inputs.domian }}":             [11, "there is no input `domian`", "did you mean `domain`?"],
    "${{ secrets.licence_key }}":       [12, "there is no secret `licence_key`", "did you mean `license_key`?"],
    "${{ install.nmae }}":              [4, "there is no value of the install `nmae`", "did you mean `name`?"],
    "${{ input.domain }}":              [4, "there is no name `input`", "did you mean `inputs`?"],
    "${{ inputs.domain + 1 }}":         [4, "no such overload: string + int", undefined],
    "${{ components.db.outputs.url * 2 }}": [4, "no such overload: string * int", undefined],
    "${{ nofunction(1) }}":             [4, "found no matching overload for 'nofunction(int)'", undefined],
  };
  for (const [text, [offset, message, hint]] of Object.entries(WRONG)) {
    test(`find what is wrong with ${text}`, () => {
      const expected = hint === undefined ? { offset, message } : { offset, message, hint };
      assert.deepEqual(check(text), [expected]);
    });
  }
});

function problemsOf(text: string): [number, string][] {
  return parseTemplate(text).problems.map(({ offset, message }) => [offset, message]);
}

function declarations(): Declarations {
  return {
    inputs: new Map<string, ValueType>([
      ["domain", "string"],
      ["replicas", "number"],
    ]),
    secrets: new Set(["license_key"]),
    components: new Map<string, ReadonlyMap<string, ValueType> | "open">([
      ["db", new Map([["url", "string"]])],
      ["api-image", new Map([["image", "any"]])],
      ["infra", "open"],
      ["silent", new Map()],
    ]),
  };
}
