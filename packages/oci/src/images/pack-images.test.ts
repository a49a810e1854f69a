import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { readImage } from "../content/content-store.ts";
import { createLayoutStore } from "../content/layout-store.ts";
import { unpackImage } from "../layer/unpack.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { type ImagesBuild, packImages } from "./pack-images.ts";

test("folders become images on top of the runner, whatever order they are named in", async (t) => {
  const place = await createPlace(t);
  const plugin = await place.folder("plugin", "command", { "plugin.mjs": "plugin" });
  const runner = await place.folder("runner", "runner", { "runner.mjs": "runner" });

  const built = await place.pack([plugin, runner]);

  assert.ok(built.kind === "built");
  const [first, second] = built.images;
  assert.ok(first && second);
  assert.deepEqual([first.name, second.name], ["runner", "command"]);
  const store = createLayoutStore({ directory: place.layout });
  const below = await readImage(store, first.repository, first.digest);
  const above = await readImage(store, second.repository, second.digest);
  assert.deepEqual(above.manifest.layers.slice(0, -1), below.manifest.layers);
  const root = join(place.directory, "root");
  await unpackImage(store, second.repository, second.digest, root);
  assert.deepEqual((await readdir(join(root, "exclave"))).toSorted(), [
    "bin",
    "plugin.mjs",
    "runner.mjs",
  ]);
});

test("a layout of the same folders and Node is left alone, and packed anew when either changes", async (t) => {
  const place = await createPlace(t);
  const runner = await place.folder("runner", "runner", { "runner.mjs": "one" });
  const list = () => readFile(join(place.layout, "images.json"), "utf8");

  assert.equal((await place.pack([runner])).kind, "built");
  const first = await list();
  assert.equal((await place.pack([runner])).kind, "up-to-date");
  await place.folder("runner", "runner", { "runner.mjs": "two" });
  assert.equal((await place.pack([runner])).kind, "built");
  assert.notEqual(await list(), first);
  await writeFile(place.node, "another node");
  assert.equal((await place.pack([runner])).kind, "built");
});

test("without a runner nothing is packed, and a folder that holds no image is named", async (t) => {
  const place = await createPlace(t);
  const plugin = await place.folder("plugin", "command", { "plugin.mjs": "plugin" });

  await assert.rejects(place.pack([plugin]), { code: "invalid", message: /runner's image/ });
  await assert.rejects(place.pack([place.directory]), {
    code: "invalid",
    message: `${place.directory} holds no image: image.json cannot be read`,
  });
});

test("programs a plugin runs go into its image where they are asked for and found, by digest", async (t) => {
  const place = await createPlace(t);
  const runner = await place.folder("runner", "runner", { "runner.mjs": "runner" });
  const plugin = await place.folder("plugin", "helm", { "plugin.mjs": "plugin" }, ["helm", "none"]);
  const tools = join(place.directory, "tools");
  await mkdir(tools);
  await writeFile(join(tools, "helm"), "a helm", { mode: 0o755 });
  const helmIn = async (toolPath?: string) => {
    const built = await place.pack([runner, plugin], toolPath);
    assert.ok(built.kind === "built");
    const image = built.images[1];
    assert.ok(image);
    const root = join(place.directory, `root-${image.digest.slice(-8)}`);
    const store = createLayoutStore({ directory: place.layout });
    const { config } = await unpackImage(store, image.repository, image.digest, root);
    const bytes = await readFile(join(root, "usr/local/bin/helm"), "utf8").catch(() => undefined);
    return { bytes, labels: config.config.Labels ?? {} };
  };

  assert.deepEqual(await helmIn(), { bytes: undefined, labels: {} });
  const sha256 = createHash("sha256").update("a helm").digest("hex");
  assert.deepEqual(await helmIn(tools), {
    bytes: "a helm",
    labels: { "dev.exclave.tool.helm": `sha256:${sha256}` },
  });
  await writeFile(join(tools, "helm"), "another helm");
  assert.equal((await helmIn(tools)).bytes, "another helm");
});

async function createPlace(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const layout = join(directory, "layout");
  const node = join(directory, "node");
  await writeFile(node, "not really node");
  return {
    directory,
    layout,
    node,
    async folder(
      kind: string,
      name: string,
      programs: Readonly<Record<string, string>>,
      tools?: readonly string[],
    ) {
      const folder = join(directory, name);
      await mkdir(join(folder, "exclave"), { recursive: true });
      const note = { name, kind, repository: `exclave/${name}`, tools };
      await writeFile(join(folder, "image.json"), JSON.stringify(note));
      for (const [file, text] of Object.entries(programs)) {
        await writeFile(join(folder, "exclave", file), text);
      }
      return folder;
    },
    pack: (folders: readonly string[], toolPath?: string): Promise<ImagesBuild> =>
      packImages({
        directory: layout,
        folders,
        nodePath: node,
        toolPath,
        ifNeeded: true,
        log: () => undefined,
      }),
  };
}
