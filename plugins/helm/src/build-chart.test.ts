import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type TestContext as NodeTest, test } from "node:test";
import { createTestContext } from "@exclave/plugin-sdk/testing";
import { chartIn } from "./build-chart.ts";
import { freezeChart } from "./frozen-chart.ts";
import { plugin } from "./plugin.ts";

const CHART = "apiVersion: v2\nname: web\nversion: 1.0.0\n";

test("a chart's directory is packed as it is", async (t) => {
  const files = await sourceOf(t, { "Chart.yaml": CHART, "templates/a.yaml": "kind: A\n" });

  const { build } = await (await context(t, files)).run("build");

  assert.deepEqual(build, { kind: "chart", directory: files });
});

test("a chart without the charts it needs is refused with their name", async (t) => {
  const needs = `${CHART}dependencies:\n  - { name: cache, version: 1.0.0 }\n`;
  const without = await sourceOf(t, { "Chart.yaml": needs });
  const beside = await sourceOf(t, { "Chart.yaml": needs, "charts/cache-1.0.0.tgz": "x" });

  await assert.rejects((await context(t, without)).run("build"), {
    code: "invalid",
    message: /the chart cache, which this one needs, is not in charts\//,
  });
  await (await context(t, beside)).run("build");
});

test("a source that is no chart is refused", async (t) => {
  const files = await sourceOf(t, { "values.yaml": "a: 1\n" });

  await assert.rejects((await context(t, files)).run("build"), { code: "invalid" });
});

test("a chart is found in its artifact, where it lies in a folder of its name", async (t) => {
  const files = await sourceOf(t, { "web/Chart.yaml": CHART });

  assert.equal(await chartIn(files), join(files, "web"));
  assert.equal(await chartIn(join(files, "web")), join(files, "web"));
  await assert.rejects(chartIn(join(files, "..")), { code: "invalid" });
});

test("a frozen chart has the planned text and no template, dependency or function left", async (t) => {
  const chart = await sourceOf(t, {
    "Chart.yaml": `${CHART}dependencies:\n  - { name: cache, version: 1.0.0 }\n`,
    "values.yaml": "a: 1\n",
    "templates/a.yaml": "{{ randAlphaNum 9 }}",
    "charts/cache/Chart.yaml": CHART,
  });
  const rendering = { manifest: "text: '{{ not a template }}'\n", hooks: ["hook: 1\n"] };

  const frozen = await freezeChart(chart, rendering, join(chart, "../frozen"));

  assert.deepEqual((await readdir(frozen)).toSorted(), [
    "Chart.yaml",
    "planned",
    "templates",
    "values.yaml",
  ]);
  assert.equal(await readFile(join(frozen, "planned/0.yaml"), "utf8"), rendering.manifest);
  assert.equal(await readFile(join(frozen, "planned/1.yaml"), "utf8"), "hook: 1\n");
  const template = await readFile(join(frozen, "templates/0.yaml"), "utf8");
  assert.equal(template, '{{ .Files.Get "planned/0.yaml" }}\n');
  const metadata = JSON.parse(await readFile(join(frozen, "Chart.yaml"), "utf8"));
  assert.deepEqual(metadata, { apiVersion: "v2", name: "web", version: "1.0.0" });
});

async function sourceOf(t: NodeTest, files: Readonly<Record<string, string>>): Promise<string> {
  const place = await mkdtemp(join(tmpdir(), "exclave-chart-"));
  t.after(() => rm(place, { recursive: true, force: true }));
  const directory = join(place, "source");
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), text);
  }
  return directory;
}

async function context(t: NodeTest, files: string) {
  const made = await createTestContext(plugin, { files });
  t.after(() => rm(made.directory, { recursive: true, force: true }));
  return made;
}
