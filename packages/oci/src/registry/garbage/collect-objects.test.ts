// Garbage collection where content is in an object store: nothing can be moved aside there.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { describe, type TestContext, test } from "node:test";
import type { Digest } from "@exclave/core";
import { type ContentStore, writeBlobBytes } from "../../content/content-store.ts";
import { type Descriptor, MEDIA_TYPES } from "../../content/descriptor.ts";
import { collect, digestOf } from "../../content/digest.ts";
import { createMemoryObjectStore } from "../../objects/memory-object-store.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import { createRegistryFiles } from "../files/registry-files.ts";
import { collectFrom, GRACE_MS } from "./collect-garbage.ts";
import { forgetManifests } from "./forget-manifests.ts";

async function world(t: TestContext) {
  const directory = await temporaryDirectory(t);
  let agoMs = 0;
  const objects = createMemoryObjectStore({ now: () => Date.now() - agoMs });
  const files = createRegistryFiles(directory, objects);
  /** What is written meanwhile is as if it had come two days ago. */
  const longAgo = async <T>(work: () => Promise<T>): Promise<T> => {
    agoMs = 2 * GRACE_MS;
    try {
      return await work();
    } finally {
      agoMs = 0;
    }
  };
  return { directory, objects, files, longAgo };
}

async function image(store: ContentStore, repository: string, tag?: string) {
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const layer = await writeBlobBytes(store, repository, MEDIA_TYPES.layerTar, randomBytes(100));
  return { config, layer, digest: await put(store, repository, [config, layer], tag) };
}

function put(
  store: ContentStore,
  repository: string,
  [config, ...layers]: readonly Descriptor[],
  tag?: string,
): Promise<Digest> {
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, config, layers }));
  return store.writeManifest(repository, bytes, MEDIA_TYPES.manifest, tag);
}

describe("garbage collection in an object store", () => {
  test("keeps what manifests list, removes what none lists, and spares what is young", async (t) => {
    const { files, longAgo } = await world(t);
    const [kept, gone, loose] = await longAgo(async () => [
      await image(files, "a", "v1"),
      await image(files, "a/b"),
      await writeBlobBytes(files, "a", "text/plain", randomBytes(10)),
    ]);
    await files.unlinkManifest("a/b", gone.digest);
    const young = await writeBlobBytes(files, "a", "text/plain", randomBytes(10));

    const { unlinked, removed } = await collectFrom(files, { now: Date.now() });

    // Links of the loose blob, and of two of the image that was deleted; content of that image and of the blob.
    assert.deepEqual([unlinked, removed], [3, 3]);
    assert.equal(await files.headBlob("a", loose.digest), undefined);
    assert.equal(await files.blobs.size(gone.layer.digest), undefined);
    assert.equal(
      digestOf(await collect(files.readBlob("a", kept.layer.digest))),
      kept.layer.digest,
    );
    assert.ok((await files.headBlob("a", young.digest)) !== undefined);
  });

  for (const step of ["found", "aside"] as const) {
    test(`a push of the same bytes wins, when it comes after content was ${step}`, async (t) => {
      const { directory, files, longAgo } = await world(t);
      const bytes = randomBytes(10);
      const { digest } = await longAgo(() => writeBlobBytes(files, "a", "text/plain", bytes));
      await longAgo(() => files.unlinkBlob("a", digest));
      let pushing: Promise<void> | undefined;

      await collectFrom(files, {
        now: Date.now(),
        onStep: async (at, name) => {
          if (at !== step || !digest.endsWith(name) || pushing) return;
          const file = `${directory}/upload`;
          await writeFile(file, bytes);
          pushing = files.keepBlob("b", digest, file);
          // It goes on beside the collector, which it may have to wait for.
          await new Promise((resolve) => setTimeout(resolve, 50));
        },
      });
      await pushing;

      assert.ok(pushing);
      assert.equal(digestOf(await collect(files.readBlob("b", digest))), digest);
    });
  }

  test("a push that comes when the collector has decided writes its bytes again", async (t) => {
    const { directory, objects, files, longAgo } = await world(t);
    const bytes = randomBytes(10);
    const { digest } = await longAgo(() => writeBlobBytes(files, "a", "text/plain", bytes));
    await files.unlinkBlob("a", digest);
    let pushing: Promise<void> | undefined;
    const deciding = createRegistryFiles(directory, {
      ...objects,
      async remove(key) {
        if (key === `blobs/sha256/${digest.slice(7)}`) {
          await writeFile(`${directory}/upload`, bytes);
          pushing = files.keepBlob("b", digest, `${directory}/upload`);
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
        await objects.remove(key);
      },
    });

    await collectFrom(deciding, { now: Date.now() });
    await pushing;

    assert.ok(pushing);
    assert.equal(digestOf(await collect(files.readBlob("b", digest))), digest);
  });

  test("a manifest that builds on a blob being collected is whole, or refused", async (t) => {
    const { files, longAgo } = await world(t);
    const [config, blob] = await longAgo(async () => [
      await writeBlobBytes(files, "a", MEDIA_TYPES.empty, Buffer.from("{}")),
      await writeBlobBytes(files, "a", "text/plain", randomBytes(10)),
    ]);
    let putting: Promise<Digest | "refused"> | undefined;

    await collectFrom(files, {
      now: Date.now(),
      onStep: async (at, name) => {
        if (at !== "aside" || name !== blob.digest.replace(":", "-") || putting) return;
        putting = put(files, "a", [config, blob]).catch(() => "refused");
        await new Promise((resolve) => setTimeout(resolve, 50));
      },
    });
    const outcome = await putting;

    assert.ok(outcome !== undefined);
    const isThere = (await files.headBlob("a", blob.digest)) !== undefined;
    const manifest = outcome === "refused" ? undefined : await files.headManifest("a", outcome);
    assert.equal(manifest !== undefined, isThere && outcome !== "refused");
  });

  test("a notice that a killed collector left counts for nothing after a while", async (t) => {
    const { objects, files, longAgo } = await world(t);
    const bytes = randomBytes(10);
    const { digest } = await writeBlobBytes(files, "a", "text/plain", bytes);
    const key = `blobs/sha256/${digest.slice(7)}`;
    await longAgo(() => objects.write(`aside/${key}`, Buffer.alloc(0)));

    assert.ok(await files.linkBlob("b", digest));
    await collectFrom(files, { now: Date.now() });

    assert.equal(await objects.head(`aside/${key}`), undefined);
  });

  test("manifests that nothing kept reaches are taken out", async (t) => {
    const { directory, objects, files, longAgo } = await world(t);
    const [kept, gone] = await longAgo(async () => [
      await image(files, "apps/api"),
      await image(files, "apps/api"),
    ]);
    const keep = new Set([kept.digest]);

    const forgotten = await forgetManifests({
      directory,
      objects,
      keep,
      now: Date.now(),
      graceMs: GRACE_MS,
    });

    assert.equal(forgotten, 1);
    assert.ok(await files.headManifest("apps/api", kept.digest));
    assert.equal(await files.headManifest("apps/api", gone.digest), undefined);
  });
});
