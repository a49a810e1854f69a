import assert from "node:assert/strict";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Digest } from "@exclave/core";
import { createLayoutStore, packImage, packIndex, readImage, unpackImage } from "@exclave/oci";
import { pushBuild } from "./push-build.ts";
import { createJobFixture } from "./testing/job-fixture.ts";

const REPOSITORY = "apps/shop/tool";

async function target(t: TestContext) {
  const { directory, registry } = await createJobFixture(t);
  const files = join(directory, "files");
  await mkdir(files);
  await writeFile(join(files, "tool"), "#!/bin/sh\n", { mode: 0o755 });
  const { signal } = new AbortController();
  return {
    directory,
    files,
    registry,
    target: registry,
    repository: REPOSITORY,
    materials: [],
    signal,
  };
}

test("an image that a layout holds is pushed as it is", async (t) => {
  const { directory, files, ...options } = await target(t);
  const layout = join(directory, "layout");
  const { digest } = await packImage({
    store: createLayoutStore({ directory: layout }),
    repository: "local",
    layers: [{ directory: files }],
  });

  const pushed = await pushBuild({
    ...options,
    build: { kind: "layout", directory: layout, digest },
  });

  assert.equal(pushed.digest, digest);
  assert.ok((await readImage(options.registry, REPOSITORY, digest)).manifest.layers.length === 1);
});

test("an image for several platforms is as large as all they hold, what they share counted once", async (t) => {
  const { directory, files, ...options } = await target(t);
  const layout = join(directory, "layout");
  const place = { store: createLayoutStore({ directory: layout }), repository: "local" };
  const manifests = [];
  for (const architecture of ["amd64", "arm64"]) {
    const config = { architecture };
    manifests.push(await packImage({ ...place, layers: [{ directory: files }], config }));
  }
  const { digest } = await packIndex({ ...place, manifests });

  const { sizeBytes } = await pushBuild({
    ...options,
    build: { kind: "layout", directory: layout, digest },
  });

  const blobs = join(layout, "blobs/sha256");
  const names = await readdir(blobs);
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(blobs, name))).size));
  assert.equal(names.length, 6, "an index, two manifests, two configurations, one layer");
  assert.equal(
    sizeBytes,
    sizes.reduce((sum, size) => sum + size, 0),
  );
});

test("a layout that does not hold what was built fails", async (t) => {
  const { directory, files: _, ...options } = await target(t);
  const digest = Digest.parse(`sha256:${"0".repeat(64)}`);
  const build = { kind: "layout", directory: join(directory, "empty"), digest } as const;

  await assert.rejects(pushBuild({ ...options, build }), { code: "not_found" });
});

test("a directory becomes the top layer of the material it names as its base", async (t) => {
  const { directory, files, ...options } = await target(t);
  const base = await packImage({
    store: options.registry,
    repository: "exclave/runner",
    layers: [{ directory: files, prefix: "base" }],
    config: { entrypoint: ["/base/tool"] },
  });
  const materials = [{ name: "base", repository: "exclave/runner", digest: base.digest }];

  const { digest, sizeBytes } = await pushBuild({
    ...options,
    materials,
    build: {
      kind: "image",
      directory: files,
      prefix: "/exclave",
      base: "base",
      annotations: { a: "b" },
    },
  });

  const root = join(directory, "root");
  const { manifest, config } = await unpackImage(options.registry, REPOSITORY, digest, root);
  assert.equal(manifest.annotations?.a, "b");
  assert.deepEqual(config.config.Entrypoint, ["/base/tool"]);
  assert.equal(await readFile(join(root, "exclave/tool"), "utf8"), "#!/bin/sh\n");
  assert.equal((await stat(join(root, "base/tool"))).mode & 0o111, 0o111);
  assert.ok(sizeBytes > manifest.layers.reduce((sum, { size }) => sum + size, 0));
});

test("a directory becomes an image from nothing, with its own entrypoint", async (t) => {
  const { files, directory: _, ...options } = await target(t);
  const config = { entrypoint: ["/tool"], cmd: ["serve"], env: ["A=1"], workingDir: "/data" };

  const { digest } = await pushBuild({
    ...options,
    build: { kind: "image", directory: files, prefix: "/", config },
  });

  const image = await readImage(options.registry, REPOSITORY, digest);
  assert.equal(image.manifest.layers.length, 1);
  const { Entrypoint, Cmd, Env, WorkingDir } = image.config.config;
  assert.deepEqual([Entrypoint, Cmd, Env, WorkingDir], [["/tool"], ["serve"], ["A=1"], "/data"]);
});

test("a base that the job was not given is named", async (t) => {
  const { files, directory: _, ...options } = await target(t);
  const build = { kind: "image", directory: files, prefix: "/exclave", base: "base" } as const;

  await assert.rejects(pushBuild({ ...options, build }), /given no image "base" to build on/);
});
