// Garbage collection in a directory that earlier registries wrote to, killed ones and less strict ones.

import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { readdir, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { writeFileDurably } from "../../content/blob-files.ts";
import { writeBlobBytes } from "../../content/content-store.ts";
import { MEDIA_TYPES } from "../../content/descriptor.ts";
import { digestOf } from "../../content/digest.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import { createRegistryFiles } from "../files/registry-files.ts";
import { collectGarbage, GRACE_MS } from "./collect-garbage.ts";

async function world(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const files = createRegistryFiles(directory);
  const sweep = () => collectGarbage({ directory, now: Date.now() });
  return { directory, files, sweep, age };

  /** As if all that is here had come two days ago. */
  async function age(): Promise<void> {
    const then = new Date(Date.now() - 2 * GRACE_MS);
    const entries = await readdir(directory, { recursive: true, withFileTypes: true });
    for (const entry of entries.filter((each) => each.isFile())) {
      await utimes(join(entry.parentPath, entry.name), then, then);
    }
  }
}

describe("garbage collection after earlier registries", () => {
  test("keeps what a manifest listed as what it was taken in", async (t) => {
    const { directory, files, sweep, age } = await world(t);
    const layer = await writeBlobBytes(files, "a", "text/plain", randomBytes(10));
    const garbage = await writeBlobBytes(files, "a", "text/plain", randomBytes(10));
    // Neither is taken in any more; both were, before anyone asked.
    const fields = { schemaVersion: 2, config: layer, layers: [layer] };
    for (const odd of [{ manifests: [] }, { mediaType: "application/json" }]) {
      const bytes = Buffer.from(JSON.stringify({ ...fields, ...odd }));
      const { digest } = await writeBlobBytes(files, "a", "text/plain", bytes);
      const name = digest.replace(":", "-");
      await rm(join(directory, "repositories/a/+blobs", name));
      const link = join(directory, "repositories/a/+manifests", name);
      await writeFileDurably(link, JSON.stringify({ mediaType: MEDIA_TYPES.manifest }));
    }
    await age();

    await sweep();

    assert.ok((await files.headBlob("a", layer.digest)) !== undefined);
    assert.equal(await files.headBlob("a", garbage.digest), undefined);
  });

  test("removes links that a killed registry was writing, once they are old", async (t) => {
    const { directory, files, sweep, age } = await world(t);
    const subject = { mediaType: MEDIA_TYPES.manifest, digest: digestOf("subject"), size: 1 };
    const config = await writeBlobBytes(files, "a", MEDIA_TYPES.empty, Buffer.from("{}"));
    const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, config, layers: [], subject }));
    const manifest = { bytes, mediaType: MEDIA_TYPES.manifest, digest: digestOf(bytes) };
    await files.putManifest("a", manifest, ["v1"]);
    const referrers = join("+referrers", subject.digest.replace(":", "-"));
    const places = ["+tags", "+manifests", referrers].map((kind) =>
      join(directory, "repositories/a", kind),
    );
    const all = async () => (await Promise.all(places.map((place) => readdir(place)))).flat();
    const before = await all();
    for (const place of places) await writeFile(join(place, `:${randomUUID()}`), "half");

    await sweep();
    assert.equal((await all()).length, before.length + 3);
    await age();
    await sweep();

    assert.deepEqual(await all(), before);
  });
});
