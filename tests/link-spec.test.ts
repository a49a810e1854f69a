// The link's specification is numbered sentences. Each that says MUST is held by a test that cites it in its title.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const ROOT = join(import.meta.dirname, "..");
const SENTENCE = /^- \*\*(L-\d+\.\d+)\*\* (.+)$/gm;
const TESTS = ["packages/*/src/**/*.{test,e2e}.ts", "tests/**/*.{test,e2e}.ts"];
const TITLE = /(?:test\(\s*|^\s*)"([^"\n]*\(L-\d+\.\d+\))"/gm;

const spec = readFileSync(join(ROOT, "docs/specs/link-v1.md"), "utf8");
const sentences = new Map(
  [...spec.matchAll(SENTENCE)].map(([, number = "", text = ""]) => [number, text] as const),
);
const cited = new Set(
  TESTS.flatMap((pattern) =>
    globSync(pattern, { cwd: ROOT, exclude: (path) => path.includes("node_modules") }),
  )
    .flatMap((file) => [...readFileSync(join(ROOT, file), "utf8").matchAll(TITLE)])
    .flatMap(([, title = ""]) => title.match(/L-\d+\.\d+/g) ?? []),
);

test("every sentence of the link's specification that says MUST is cited by a test", () => {
  const musts = [...sentences].filter(([, text]) => text.includes("MUST"));

  assert.ok(musts.length >= 25, `${musts.length} sentences say MUST`);
  assert.deepEqual(
    musts.map(([number]) => number).filter((number) => !cited.has(number)),
    [],
  );
});

test("no test cites a sentence that the link's specification does not have", () => {
  assert.deepEqual(
    [...cited].filter((number) => !sentences.has(number)),
    [],
  );
});
