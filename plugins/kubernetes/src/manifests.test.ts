import assert from "node:assert/strict";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type TestContext as NodeTest, test } from "node:test";
import { createTestContext } from "@exclave/plugin-sdk/testing";
import { substitute } from "./manifests.ts";
import { plugin } from "./plugin.ts";

test("a variable takes its own type where it is the whole text", () => {
  const manifest = { replicas: "${COUNT}", name: "web-${COUNT}-${OTHER}", on: ["${FLAG}"] };

  assert.deepEqual(substitute(manifest, { COUNT: 2, FLAG: true }), {
    replicas: 2,
    name: "web-2-${OTHER}",
    on: [true],
  });
});

test("a variable's value is never read as a manifest or as another variable", () => {
  const value = "x\n---\nkind: Secret ${A}";

  assert.deepEqual(substitute({ data: "<${A}>" }, { A: value }), { data: `<${value}>` });
});

test("names that every object has are no variables", () => {
  assert.deepEqual(substitute("${constructor}", {}), "${constructor}");
});

test("the build keeps every manifest of the source, in one text", async (t) => {
  const built = await build(t, {
    "b/second.yml": "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: b }\n",
    "a.json": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}',
    "notes.txt": "not a manifest",
  });

  assert.match(built, /"name":"a"[\s\S]*---[\s\S]*name: b/);
  assert.doesNotMatch(built, /not a manifest/);
});

test("a source without an object, or with a broken one, does not build", async (t) => {
  await assert.rejects(build(t, { "a.yaml": "# nothing\n" }), { code: "invalid" });
  await assert.rejects(build(t, { "a.yaml": "kind: Pod\n" }), { code: "invalid" });
  await assert.rejects(build(t, { "a.yaml": "a: [\n" }), { code: "invalid", message: /not YAML/ });
});

test("a path outside the source is refused", async (t) => {
  await assert.rejects(build(t, { "a.yaml": "" }, { path: "../elsewhere" }), {
    code: "invalid",
    message: /outside the source/,
  });
});

async function build(t: NodeTest, files: Readonly<Record<string, string>>, config = {}) {
  const context = await createTestContext(plugin, { config });
  t.after(() => rm(context.directory, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(context.files, name)), { recursive: true });
    await writeFile(join(context.files, name), text);
  }
  const { build: built } = await context.run("build");
  assert.equal(built?.kind, "manifests");
  return readFile(join(built.directory, "manifests.yaml"), "utf8");
}
