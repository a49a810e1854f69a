import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Digest } from "@exclave/core";
import type { ContentStore } from "../../content/content-store.ts";
import { writeBlobBytes } from "../../content/content-store.ts";
import { type Descriptor, MEDIA_TYPES } from "../../content/descriptor.ts";
import { createRegistryFiles } from "../files/registry-files.ts";
import { forgetManifests } from "./forget-manifests.ts";

const DAY_MS = 24 * 60 * 60_000;

test("what nothing kept reaches is taken out; what is listed by it or about it stays", async (t) => {
  const { directory, files, has } = await world(t);
  const artifact = await image(files, "apps/api");
  const index = await put(files, "apps/release", {
    mediaType: MEDIA_TYPES.index,
    manifests: [artifact],
  });
  const statement = await put(files, "apps/release", {
    ...(await parts(files, "apps/release")),
    subject: index,
  });
  const superseded = await image(files, "apps/api");

  const forgotten = await forgetManifests({
    directory,
    keep: new Set([index.digest]),
    now: Date.now() + 2 * DAY_MS,
    graceMs: DAY_MS,
  });

  assert.equal(forgotten, 1);
  assert.ok(await has("apps/api", artifact.digest));
  assert.ok(await has("apps/release", index.digest));
  assert.ok(await has("apps/release", statement.digest));
  assert.ok(!(await has("apps/api", superseded.digest)));
});

test("what was written within the grace period stays: somebody may be about to name it", async (t) => {
  const { directory, files, has } = await world(t);
  const pushed = await image(files, "apps/api");

  const options = { directory, keep: new Set<string>(), now: Date.now(), graceMs: DAY_MS };

  assert.equal(await forgetManifests(options), 0);
  assert.ok(await has("apps/api", pushed.digest));
});

test("a repository with a manifest that cannot be read is left alone", async (t) => {
  const { directory, files, has } = await world(t);
  const damaged = await image(files, "apps/api");
  const other = await image(files, "apps/api");
  await writeFile(files.blobs.path(damaged.digest), "not a manifest");

  const options = { directory, keep: new Set<string>(), now: Date.now() + 2 * DAY_MS, graceMs: 1 };

  assert.equal(await forgetManifests(options), 0);
  assert.ok(await has("apps/api", other.digest));
});

async function world(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), "exclave-forget-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const files = createRegistryFiles(directory);
  const has = async (repository: string, digest: Digest) =>
    (await files.headManifest(repository, digest)) !== undefined;
  return { directory, files, has };
}

async function parts(store: ContentStore, repository: string) {
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const layer = await writeBlobBytes(store, repository, MEDIA_TYPES.layerTar, randomBytes(50));
  return { config, layers: [layer] };
}

async function image(store: ContentStore, repository: string): Promise<Descriptor> {
  return put(store, repository, await parts(store, repository));
}

async function put(
  store: ContentStore,
  repository: string,
  manifest: Record<string, unknown> & { readonly mediaType?: string },
): Promise<Descriptor> {
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, ...manifest }));
  const { mediaType = MEDIA_TYPES.manifest } = manifest;
  const digest = await store.writeManifest(repository, bytes, mediaType);
  return { mediaType, digest, size: bytes.length };
}
