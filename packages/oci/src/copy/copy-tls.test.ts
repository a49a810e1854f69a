// Copies over TLS, with certificates no system knows. The records of TLS come in their own rhythm,
// so the bytes are looked at as a whole at the other end.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, test } from "node:test";
import { Failure } from "@exclave/core";
import { createRegistryClient } from "../client/registry-client.ts";
import { readBlobBytes, writeBlobBytes } from "../content/content-store.ts";
import { MEDIA_TYPES } from "../content/descriptor.ts";
import { makeCertificate, serveTls, skipWithoutOpenssl } from "../registry/testing/tls-registry.ts";
import { copyArtifact } from "./copy.ts";

describe("a copy over TLS", { skip: skipWithoutOpenssl }, () => {
  test("brings every byte, whatever the sizes are", async (t) => {
    const tls = await makeCertificate(t);
    const clients = [await serveTls(t, tls), await serveTls(t, tls)].map((url) => {
      const client = createRegistryClient({ url, ca: tls.cert });
      t.after(() => client.close());
      return client;
    });
    const [from, to] = clients as [(typeof clients)[0], (typeof clients)[0]];
    const sizes = [1, 16_384, 262_144, 262_145, 3_000_001, 8_000_000];
    const layers = [];
    for (const size of sizes) {
      layers.push(await writeBlobBytes(from, "a", MEDIA_TYPES.layerTar, randomBytes(size)));
    }
    const config = await writeBlobBytes(from, "a", MEDIA_TYPES.empty, Buffer.from("{}"));
    const document = { schemaVersion: 2, mediaType: MEDIA_TYPES.manifest, config, layers };
    const bytes = Buffer.from(JSON.stringify(document));
    const digest = await from.writeManifest("a", bytes, MEDIA_TYPES.manifest);

    const source = { repository: "a", digest };
    const result = await copyArtifact({ from, to, source, target: { repository: "b" } });

    assert.equal(result.copiedBytes, sizes.reduce((sum, size) => sum + size, 0) + 2);
    for (const layer of layers) {
      assert.equal((await readBlobBytes(to, "b", layer)).length, layer.size);
    }
  });

  test("is refused when nobody vouches for the other side, at the first try", async (t) => {
    const url = await serveTls(t, await makeCertificate(t));
    const strangers = [
      createRegistryClient({ url, backoffMs: 1 }),
      createRegistryClient({ url, backoffMs: 1, ca: (await makeCertificate(t)).cert }),
    ];
    for (const client of strangers) {
      t.after(() => client.close());

      await assert.rejects(client.tags("a"), isUnreachable);
      const digest = `sha256:${"0".repeat(64)}` as never;
      await assert.rejects(
        client.pourBlob("a", digest, async () => undefined),
        isUnreachable,
      );
      assert.equal(client.requests, 2);
    }
  });
});

function isUnreachable(reason: unknown): boolean {
  return reason instanceof Failure && reason.code === "unavailable";
}
