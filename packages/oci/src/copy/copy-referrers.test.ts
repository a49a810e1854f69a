// Signatures and the like, brought along to registries with and without the referrers API.

import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import type { Digest } from "@exclave/core";
import { MEDIA_TYPES } from "../content/descriptor.ts";
import { failsWith, knowsNoReferrers, putImage, type Side, world } from "./testing/copy-world.ts";

async function sign({ client }: Side, digest: Digest): Promise<Digest> {
  const subject = { mediaType: MEDIA_TYPES.manifest, digest, size: 1 };
  return putImage(client, "a", { subject, artifactType: "test/signature" });
}

async function referrers({ client }: Side, digest: Digest): Promise<Digest[]> {
  return (await client.referrers("a", digest)).map((entry) => entry.digest);
}

/** Like `world`, with an index around the image. */
async function indexWorld(t: TestContext) {
  const made = await world(t, [10]);
  const { bytes } = await made.source.client.readManifest("a", made.digest);
  const mediaType = MEDIA_TYPES.index;
  const child = { mediaType: MEDIA_TYPES.manifest, digest: made.digest, size: bytes.length };
  const document = { schemaVersion: 2, mediaType, manifests: [child] };
  const index = await made.source.client.writeManifest(
    "a",
    Buffer.from(JSON.stringify(document)),
    mediaType,
  );
  const source = { repository: "a", digest: index };
  return { ...made, index, copyIndex: () => made.copy({ source, referrers: true }) };
}

describe("a copy with referrers", () => {
  for (const isThereAlready of [true, false]) {
    test(`repairs a list of referrers it could not write before, the artifact being ${isThereAlready ? "there" : "new"}`, async (t) => {
      const { source, destination, digest, copy } = await world(t, [10]);
      if (isThereAlready) await copy();
      const signature = await sign(source, digest);
      const list = `/manifests/${digest.replace(":", "-")}`;
      destination.trouble = (request, response) => {
        if (request.method !== "PUT" || !request.url?.endsWith(list)) {
          return knowsNoReferrers(request, response);
        }
        response.writeHead(403).end();
        return true;
      };
      await assert.rejects(copy({ referrers: true }), failsWith("forbidden"));
      destination.trouble = knowsNoReferrers;
      assert.deepEqual(await referrers(destination, digest), []);

      await copy({ referrers: true });

      assert.deepEqual(await referrers(destination, digest), [signature]);
    });
  }

  test("asks each side once about a signature that is there, and writes nothing", async (t) => {
    const { source, destination, digest, copy } = await world(t, [10]);
    await sign(source, digest);
    await copy({ referrers: true });
    source.seen.length = 0;
    destination.seen.length = 0;

    await copy({ referrers: true });

    assert.deepEqual(source.seen, ["GET /v2/a/referrers/…", "GET /v2/a/referrers/…"]);
    assert.deepEqual(destination.seen, [
      "HEAD /v2/a/manifests/…",
      "GET /v2/a/referrers/…",
      "HEAD /v2/a/manifests/…",
    ]);
  });

  test("brings what was attached to a child since its index was copied", async (t) => {
    const { source, destination, digest, copyIndex } = await indexWorld(t);
    await copyIndex();
    const signature = await sign(source, digest);

    await copyIndex();

    assert.deepEqual(await referrers(destination, digest), [signature]);
  });

  test("brings what was attached to a child of an index that another index lists", async (t) => {
    const { source, destination, digest, index, copy, copyIndex } = await indexWorld(t);
    await copyIndex();
    const signature = await sign(source, digest);
    const mediaType = MEDIA_TYPES.index;
    const { bytes } = await source.client.readManifest("a", index);
    const document = {
      schemaVersion: 2,
      manifests: [{ mediaType, digest: index, size: bytes.length }],
    };
    const outer = await source.client.writeManifest(
      "a",
      Buffer.from(JSON.stringify(document)),
      mediaType,
    );

    await copy({ source: { repository: "a", digest: outer }, referrers: true });

    assert.deepEqual(await referrers(destination, digest), [signature]);
  });

  test("keeps a list for what is named by sha512, where clients keep it themselves", async (t) => {
    const { destination, digest } = await world(t, [10]);
    const subject = `sha512:${digest.slice("sha256:".length).repeat(2)}` as Digest;
    destination.trouble = knowsNoReferrers;

    const signature = await sign(destination, subject);

    assert.deepEqual(await referrers(destination, subject), [signature]);
  });
});
