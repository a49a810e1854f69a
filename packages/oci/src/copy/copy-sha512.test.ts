// Manifests that are known by a sha512 keep that name wherever they are copied to.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import type { Digest } from "@exclave/core";
import { MEDIA_TYPES } from "../content/descriptor.ts";
import { createLayoutStore } from "../content/layout-store.ts";
import { createMemoryStore } from "../content/memory-store.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { copyArtifact } from "./copy.ts";
import { world } from "./testing/copy-world.ts";

function sha512(bytes: Uint8Array): Digest {
  return `sha512:${createHash("sha512").update(bytes).digest("hex")}` as Digest;
}

test("an index and its children are copied under their sha512, to every kind of store", async (t) => {
  const { source, destination, digest } = await world(t, [10]);
  const from = source.client;
  const { bytes: image } = await from.readManifest("a", digest);
  const child = { mediaType: MEDIA_TYPES.manifest, digest: sha512(image), size: image.length };
  await from.writeManifest("a", image, MEDIA_TYPES.manifest, undefined, child);
  const index = Buffer.from(JSON.stringify({ schemaVersion: 2, manifests: [child] }));
  const top = sha512(index);
  await from.writeManifest("a", index, MEDIA_TYPES.index, undefined, { digest: top });
  const layout = createLayoutStore({ directory: await temporaryDirectory(t) });

  for (const to of [createMemoryStore(), layout, destination.client]) {
    const target = { repository: "a", tag: "v1" };
    await copyArtifact({ from, to, source: { repository: "a", digest: top }, target });

    assert.equal((await to.readManifest("a", top)).digest, top);
    assert.equal((await to.readManifest("a", child.digest)).digest, child.digest);
    assert.equal((await to.headManifest("a", "v1"))?.digest, top);
  }
});

test("a registry that cannot tag a sha512 in one step is asked in two", async (t) => {
  const { source, destination, digest } = await world(t, [10]);
  const { bytes } = await source.client.readManifest("a", digest);
  const expected = sha512(bytes);
  await source.client.writeManifest("a", bytes, MEDIA_TYPES.manifest, undefined, {
    digest: expected,
  });
  destination.trouble = (request) => {
    request.url = request.url?.replace(/\?tag=.*/, "") ?? "";
    return false;
  };

  await copyArtifact({
    from: source.client,
    to: destination.client,
    source: { repository: "a", digest: expected },
    target: { repository: "a", tag: "v1" },
  });

  assert.ok(await destination.client.headManifest("a", expected));
  assert.deepEqual((await destination.client.readManifest("a", "v1")).bytes, bytes);
});
