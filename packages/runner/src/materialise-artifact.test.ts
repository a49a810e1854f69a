import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { blobsOf, parseManifest } from "@exclave/oci";
import type { BuildResult } from "@exclave/plugin-sdk";
import { materialiseArtifact } from "./materialise-artifact.ts";
import { pushBuild } from "./push-build.ts";
import { createJobFixture } from "./testing/job-fixture.ts";

const repository = "apps/shop/part";
const here = `${process.platform}_${process.arch === "x64" ? "amd64" : process.arch}`;
const address = "registry.terraform.io/hashicorp/local";

/** What a job of an install finds on disk after a build of this kind. */
async function roundTrip(
  t: TestContext,
  source: Record<string, string>,
  build: (directory: string) => BuildResult,
) {
  const { directory, registry } = await createJobFixture(t);
  const from = join(directory, "from");
  for (const [name, content] of Object.entries(source)) {
    await mkdir(dirname(join(from, name)), { recursive: true });
    await writeFile(join(from, name), content);
  }
  const { signal } = new AbortController();
  const { digest } = await pushBuild({
    build: build(from),
    target: registry,
    repository,
    materials: [],
    signal,
  });
  const place = join(directory, "artifact");
  const found = await materialiseArtifact(registry, { repository, digest }, place, signal);
  assert.deepEqual(await readdir(place), ["files"], "nothing else is left there");
  assert.equal(found.layout, undefined);
  const read = (name: string) => readFile(join(found.files, name), "utf8");
  return { read };
}

test("a chart's files come below its name", async (t) => {
  const chart = "apiVersion: v2\nname: api\nversion: 1.0.0\n";

  const { read } = await roundTrip(t, { "Chart.yaml": chart }, (directory) => ({
    kind: "chart",
    directory,
  }));

  assert.equal(await read("api/Chart.yaml"), chart);
});

test("manifests come as they were", async (t) => {
  const { read } = await roundTrip(t, { "deploy/a.yaml": "kind: ConfigMap\n" }, (directory) => ({
    kind: "manifests",
    directory,
  }));

  assert.equal(await read("deploy/a.yaml"), "kind: ConfigMap\n");
});

test("a module comes with the providers for this machine in a mirror", async (t) => {
  const source = {
    "module/main.tf": "# main\n",
    "here/provider": "ours",
    "there/provider": "theirs",
  };

  const { read } = await roundTrip(t, source, (directory) => ({
    kind: "module",
    directory: join(directory, "module"),
    providers: [
      { address, version: "1.4.0", platform: here, path: join(directory, "here") },
      { address, version: "1.4.0", platform: "plan9_mips", path: join(directory, "there") },
    ],
  }));

  assert.equal(await read("main.tf"), "# main\n");
  assert.equal(await read(`.exclave/providers/${address}/1.4.0/${here}/provider`), "ours");
  await assert.rejects(read(`.exclave/providers/${address}/1.4.0/plan9_mips/provider`));
});

test("a module whose providers are all for other machines fails by name", async (t) => {
  const making = roundTrip(t, { "m/main.tf": "", "p/provider": "theirs" }, (directory) => ({
    kind: "module",
    directory: join(directory, "m"),
    providers: [{ address, version: "1.4.0", platform: "plan9_mips", path: join(directory, "p") }],
  }));

  await assert.rejects(making, new RegExp(`brings ${address} for plan9_mips and not for ${here}`));
});

for (const what of ["damaged", "gone"] as const) {
  test(`content that is ${what} in the registry has to be synced again, and the failure says so`, async (t) => {
    const { directory, registry, registryDirectory } = await createJobFixture(t);
    await mkdir(join(directory, "from"));
    await writeFile(join(directory, "from", "a.yaml"), "kind: ConfigMap\n");
    const { signal } = new AbortController();
    const build = { kind: "manifests" as const, directory: join(directory, "from") };
    const pushed = await pushBuild({ build, target: registry, repository, materials: [], signal });
    const { bytes, mediaType } = await registry.readManifest(repository, pushed.digest);
    const blobs = blobsOf(parseManifest(bytes, mediaType));
    for (const { digest } of blobs) {
      const path = join(registryDirectory, "blobs", ...digest.split(":"));
      if (what === "gone") await rm(path);
      else await writeFile(path, Buffer.alloc((await readFile(path)).length));
    }

    const place = join(directory, "artifact");
    const attempt = materialiseArtifact(registry, { repository, ...pushed }, place, signal);

    await assert.rejects(attempt, { code: "not_synced", message: /is not whole in the registry/ });
  });
}
