import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { type ContentStore, writeBlobBytes } from "./content-store.ts";
import { ImageIndex, MEDIA_TYPES } from "./descriptor.ts";
import { digestOf } from "./digest.ts";
import { createLayoutStore } from "./layout-store.ts";
import { describeContentStore } from "./testing/content-store.ts";

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

describe("a layout with bare names", () => {
  async function manifest(store: ContentStore, repository: string, n: number) {
    const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
    const annotations = { n: String(n) };
    const document = { schemaVersion: 2, config, layers: [], annotations };
    return Buffer.from(JSON.stringify(document));
  }
  async function namesIn(directory: string) {
    const index = ImageIndex.parse(
      JSON.parse(await readFile(join(directory, "index.json"), "utf8")),
    );
    return index.manifests.map(({ digest, annotations }) => ({ digest, ...annotations }));
  }

  test("calls an entry by its tag alone and notes the repository beside it", async (t) => {
    const directory = await temporaryDirectory(t);
    const store = createLayoutStore({ directory, hasBareNames: true });
    const bytes = await manifest(store, "src/app", 1);

    const digest = await store.writeManifest("src/app", bytes, MEDIA_TYPES.manifest, "v1");

    const repository = { "dev.exclave.repository": "src/app" };
    const name = { "org.opencontainers.image.ref.name": "v1" };
    assert.deepEqual(await namesIn(directory), [{ digest, ...name, ...repository }]);
    const plain = createLayoutStore({ directory });
    assert.equal((await plain.readManifest("src/app", "v1")).digest, digest);
    assert.deepEqual(await plain.tags("src/app"), ["v1"]);
    assert.deepEqual(await plain.tags("other"), []);
  });

  test("replaces whatever had the name before: another tool's, another repository's, our older way", async (t) => {
    for (const before of [
      { "org.opencontainers.image.ref.name": "v1" },
      { "org.opencontainers.image.ref.name": "v1", "dev.exclave.repository": "other" },
      { "org.opencontainers.image.ref.name": "src/app:v1", "dev.exclave.repository": "src/app" },
    ]) {
      const directory = await temporaryDirectory(t);
      const store = createLayoutStore({ directory, hasBareNames: true });
      const old = await manifest(store, "src/app", 1);
      await store.writeManifest("src/app", old, MEDIA_TYPES.manifest, "v1");
      const index = JSON.parse(await readFile(join(directory, "index.json"), "utf8"));
      index.manifests[0].annotations = before;
      await writeFile(join(directory, "index.json"), JSON.stringify(index));

      assert.equal(await store.headManifest("src/app", "v1"), undefined);
      const bytes = await manifest(store, "src/app", 2);
      const digest = await store.writeManifest("src/app", bytes, MEDIA_TYPES.manifest, "v1");

      const found = await namesIn(directory);
      assert.deepEqual(
        found.map((entry) => entry.digest),
        [digest],
      );
    }
  });
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
