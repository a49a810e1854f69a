import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeBlobBytes } from "./content-store.ts";
import { MEDIA_TYPES } from "./descriptor.ts";
import { digestOf } from "./digest.ts";
import { createLayoutStore } from "./layout-store.ts";
import { describeContentStore } from "./testing/content-store.ts";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

describeContentStore("the layout store", async (t) =>
  createLayoutStore({ directory: await temporaryDirectory(t) }),
);

test("a layout is what the image specification says, and another process finds it again", async (t) => {
  const directory = await temporaryDirectory(t);
  const store = createLayoutStore({ directory });
  const config = await writeBlobBytes(store, "apps/crm", MEDIA_TYPES.empty, Buffer.from("{}"));
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, config, layers: [] }));
  const digest = await store.writeManifest("apps/crm", bytes, MEDIA_TYPES.manifest, "v1");

  const marker = JSON.parse(await readFile(join(directory, "oci-layout"), "utf8"));
  const index = JSON.parse(await readFile(join(directory, "index.json"), "utf8"));
  const again = createLayoutStore({ directory });

  assert.deepEqual(marker, { imageLayoutVersion: "1.0.0" });
  assert.equal(index.manifests[0].digest, digest);
  assert.equal(index.manifests[0].annotations["org.opencontainers.image.ref.name"], "apps/crm:v1");
  assert.equal((await again.readManifest("apps/crm", "v1")).digest, digest);
  assert.deepEqual(await readdir(join(directory, "tmp")), []);
});

test("a manifest that was changed on disk is not given out", async (t) => {
  const directory = await temporaryDirectory(t);
  const store = createLayoutStore({ directory });
  const config = await writeBlobBytes(store, "a", MEDIA_TYPES.empty, Buffer.from("{}"));
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, config, layers: [] }));
  const digest = await store.writeManifest("a", bytes, MEDIA_TYPES.manifest, "v1");
  assert.equal(digest, digestOf(bytes));

  await writeFile(join(directory, "blobs", "sha256", digest.slice(7)), "{}");

  await assert.rejects(store.readManifest("a", "v1"), /does not match/);
});
