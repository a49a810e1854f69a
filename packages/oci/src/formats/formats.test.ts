import assert from "node:assert/strict";
import { mkdir, readFile, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { type ContentStore, writeBlobBytes } from "../content/content-store.ts";
import { type ImageManifest, MEDIA_TYPES, parseManifest } from "../content/descriptor.ts";
import { createMemoryStore } from "../content/memory-store.ts";
import { unpackFiles } from "../layer/unpack.ts";
import { packFiles, packImage, packIndex } from "../pack/pack.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { artifactFormat } from "./artifact-format.ts";
import { packChart, readChart } from "./helm-chart.ts";
import { packManifests } from "./manifests-artifact.ts";
import { RELEASE_TYPE, TOFU_TYPES } from "./media-types.ts";
import { writeDocument } from "./write-document.ts";

const repository = "apps/shop/api";
const CHART =
  "apiVersion: v2\nname: api\nversion: 1.2.3+four\ndescription: An API\nappVersion: '7'\n";

async function tree(t: TestContext, files: Record<string, string>): Promise<string> {
  const directory = await temporaryDirectory(t);
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), content);
  }
  return directory;
}

async function manifestOf(store: ContentStore, reference: string): Promise<ImageManifest> {
  const { bytes, mediaType } = await store.readManifest(repository, reference);
  const parsed = parseManifest(bytes, mediaType);
  assert.ok(parsed.kind === "manifest");
  return parsed.manifest;
}

test("each format is the same digest for the same files at any time", async (t) => {
  const files = {
    "Chart.yaml": CHART,
    "main.tf": "# a\n",
    "templates/a.yaml": "kind: ConfigMap\n",
  };
  const one = await tree(t, files);
  const two = await tree(t, files);
  await utimes(join(two, "main.tf"), 1, 1);
  const pack = async (directory: string) => {
    const target = { store: createMemoryStore(), repository, directory };
    const made = [await packChart(target), await packManifests(target)];
    return made.map(({ digest }) => digest);
  };

  assert.deepEqual(await pack(one), await pack(two));
});

test("a chart has Helm's types, its Chart.yaml as JSON and its version as the tag", async (t) => {
  const store = createMemoryStore();
  const directory = await tree(t, { "Chart.yaml": CHART, "templates/a.yaml": "kind: ConfigMap\n" });

  const { digest } = await packChart({ store, repository, directory });

  const manifest = await manifestOf(store, "1.2.3_four");
  assert.equal(manifest.config.mediaType, "application/vnd.cncf.helm.config.v1+json");
  assert.deepEqual(
    manifest.layers.map(({ mediaType }) => mediaType),
    ["application/vnd.cncf.helm.chart.content.v1.tar+gzip"],
  );
  assert.deepEqual(await readChart(store, repository, digest), {
    apiVersion: "v2",
    name: "api",
    version: "1.2.3+four",
    description: "An API",
    appVersion: "7",
  });
  const to = await temporaryDirectory(t);
  await unpackFiles(store, repository, digest, to);
  assert.equal(await readFile(join(to, "api", "Chart.yaml"), "utf8"), CHART);
});

const badCharts: Record<string, { files: Record<string, string>; message: RegExp }> = {
  "no Chart.yaml": { files: { "values.yaml": "" }, message: /needs a Chart\.yaml/ },
  "one that is not YAML": { files: { "Chart.yaml": "a: [" }, message: /Chart\.yaml:\d+: .*YAML/ },
  "one without a version": {
    files: { "Chart.yaml": "apiVersion: v2\nname: api\n" },
    message: /Chart\.yaml: version/,
  },
  "a name that is a path": {
    files: { "Chart.yaml": CHART.replace("name: api", "name: ../api") },
    message: /Chart\.yaml: name/,
  },
};
for (const [what, { files, message }] of Object.entries(badCharts)) {
  test(`a chart with ${what} is refused`, async (t) => {
    const directory = await tree(t, files);

    const packing = packChart({ store: createMemoryStore(), repository, directory });

    await assert.rejects(packing, { code: "invalid", message });
  });
}

test("manifests are in Flux's format and come out as they went in", async (t) => {
  const store = createMemoryStore();
  const directory = await tree(t, { "deploy/a.yaml": "kind: ConfigMap\n" });

  const { digest } = await packManifests({ store, repository, directory });

  const { config, layers } = await manifestOf(store, digest);
  assert.equal(config.mediaType, "application/vnd.cncf.flux.config.v1+json");
  assert.equal(layers[0]?.mediaType, "application/vnd.cncf.flux.content.v1.tar+gzip");
  const to = await temporaryDirectory(t);
  await unpackFiles(store, repository, digest, to);
  assert.equal(await readFile(join(to, "deploy/a.yaml"), "utf8"), "kind: ConfigMap\n");
});

test("a manifest's format is told from what it says of itself", async (t) => {
  const store = createMemoryStore();
  const directory = await tree(t, { "Chart.yaml": CHART });
  const target = { store, repository, directory };
  const layers = [{ directory }];
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const bare: ImageManifest = {
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.manifest,
    config,
    layers: [],
  };
  const made = {
    chart: packChart(target),
    manifests: packManifests(target),
    module: writeDocument(target, { ...bare, artifactType: TOFU_TYPES.module }),
    provider: packIndex({ ...target, manifests: [], artifactType: TOFU_TYPES.provider }),
    files: packFiles({ ...target, artifactType: "application/test" }),
    image: packImage({ ...target, layers }),
    release: packIndex({ ...target, manifests: [], artifactType: RELEASE_TYPE }),
    other: packIndex({ ...target, manifests: [] }),
  };
  for (const [format, packing] of Object.entries(made)) {
    const { bytes, mediaType } = await store.readManifest(repository, (await packing).digest);
    assert.equal(artifactFormat(parseManifest(bytes, mediaType)), format);
  }
});
