import assert from "node:assert/strict";
import {
  chmod,
  mkdir,
  readFile,
  readlink,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { type ContentStore, readImage } from "../content/content-store.ts";
import { MEDIA_TYPES, parseManifest } from "../content/descriptor.ts";
import { createMemoryStore } from "../content/memory-store.ts";
import { unpackFiles, unpackImage } from "../layer/unpack.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { packFiles, packImage } from "./pack.ts";

const LONG = `${"long-".repeat(30)}name`;

async function sourceTree(directory: string): Promise<string> {
  await mkdir(join(directory, "bin"), { recursive: true });
  await writeFile(join(directory, "bin", "tool"), "#!/bin/sh\n");
  await chmod(join(directory, "bin", "tool"), 0o700);
  await writeFile(join(directory, "größe.txt"), "x".repeat(100_000));
  await writeFile(join(directory, LONG), "long");
  await symlink("bin/tool", join(directory, "link"));
  return directory;
}

test("the same files make the same artifact, whoever packs them and when", async (t) => {
  const one = await sourceTree(join(await temporaryDirectory(t), "one"));
  const two = await sourceTree(join(await temporaryDirectory(t), "two"));
  await utimes(join(two, LONG), 1, 1);
  await chmod(join(two, LONG), 0o600);
  const target = { store: createMemoryStore(), repository: "a", artifactType: "application/test" };

  const first = await packFiles({ ...target, directory: one });
  const second = await packFiles({ ...target, directory: two });
  await writeFile(join(two, LONG), "other");
  const third = await packFiles({ ...target, directory: two });

  assert.equal(first.digest, second.digest);
  assert.notEqual(first.digest, third.digest);
});

test("files come out as they went in", async (t) => {
  const directory = await temporaryDirectory(t);
  const from = await sourceTree(join(directory, "from"));
  const to = join(directory, "to");
  const store = createMemoryStore();

  const { digest } = await packFiles({
    store,
    repository: "a",
    directory: from,
    artifactType: "application/test",
    annotations: { made: "here" },
    tag: "v1",
  });
  await unpackFiles(store, "a", digest, to);

  const { bytes, mediaType } = await store.readManifest("a", "v1");
  const parsed = parseManifest(bytes, mediaType);
  assert.equal(parsed.kind, "manifest");
  assert.equal(
    parsed.kind === "manifest" && parsed.manifest.layers[0]?.mediaType,
    MEDIA_TYPES.files,
  );
  assert.equal(await readFile(join(to, LONG), "utf8"), "long");
  assert.equal((await readFile(join(to, "größe.txt"))).length, 100_000);
  assert.equal((await stat(join(to, "bin", "tool"))).mode & 0o777, 0o755);
  assert.equal((await stat(join(to, LONG))).mode & 0o777, 0o644);
  assert.equal(await readlink(join(to, "link")), "bin/tool");
});

test("content that was changed on its way is not unpacked without a word", async (t) => {
  const directory = await temporaryDirectory(t);
  const from = await sourceTree(join(directory, "from"));
  const store = createMemoryStore();
  const { digest } = await packImage({ store, repository: "a", layers: [{ directory: from }] });
  const [layer] = (await readImage(store, "a", digest)).manifest.layers;
  const lying: ContentStore = {
    ...store,
    async *readBlob(repository, blob, options) {
      yield* store.readBlob(repository, blob, options);
      if (blob === layer?.digest) yield Buffer.from("more");
    },
  };

  const unpacking = unpackImage(lying, "a", digest, join(directory, "to"));

  await assert.rejects(unpacking, /does not match/);
});

test("an image builds on another, with its layers and its configuration", async (t) => {
  const directory = await temporaryDirectory(t);
  await writeFile(join(directory, "node"), "program");
  await writeFile(join(directory, "plugin"), "plugin");
  const store = createMemoryStore();

  const runner = await packImage({
    store,
    repository: "exclave/runner",
    layers: [
      { files: [{ path: "exclave/bin/node", from: join(directory, "node"), executable: true }] },
    ],
    config: { entrypoint: ["/exclave/bin/node"], env: ["A=1"] },
  });
  const plugin = await packImage({
    store,
    repository: "exclave/plugins/command",
    baseImage: { repository: "exclave/runner", digest: runner.digest },
    layers: [{ files: [{ path: "exclave/plugin.mjs", from: join(directory, "plugin") }] }],
    config: { env: ["B=2"] },
    annotations: { "dev.exclave.plugin.v1": "{}" },
  });

  const root = join(directory, "root");
  const unpacked = await unpackImage(store, "exclave/plugins/command", plugin.digest, root);
  const image = await readImage(store, "exclave/plugins/command", plugin.digest);
  assert.deepEqual(unpacked, image);
  assert.deepEqual(image.config.config.Entrypoint, ["/exclave/bin/node"]);
  assert.deepEqual(image.config.config.Env, ["A=1", "B=2"]);
  assert.equal(image.config.rootfs.diff_ids.length, 2);
  assert.equal(image.manifest.annotations?.["dev.exclave.plugin.v1"], "{}");
  assert.equal((await stat(join(root, "exclave/bin/node"))).mode & 0o777, 0o755);
  assert.equal(await readFile(join(root, "exclave/plugin.mjs"), "utf8"), "plugin");
});
