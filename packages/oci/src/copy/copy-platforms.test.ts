// What becomes of an index of which only some platforms are wanted.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Digest } from "@exclave/core";
import { type Descriptor, MEDIA_TYPES } from "../content/descriptor.ts";
import { digestOf } from "../content/digest.ts";
import { choosePlatforms } from "./copy-tree.ts";
import { failsWith, world } from "./testing/copy-world.ts";

function child(name: string, platform?: string): Descriptor {
  const [os = "", architecture = "", variant] = platform?.split("/") ?? [];
  return {
    mediaType: MEDIA_TYPES.manifest,
    digest: digestOf(name),
    size: 1,
    ...(platform && { platform: { os, architecture, ...(variant && { variant }) } }),
  };
}

describe("choosing platforms", () => {
  const amd = child("amd", "linux/amd64");
  const arm = child("arm", "linux/arm/v7");
  const unbound = child("unbound");
  const attestation = {
    ...child("attestation", "unknown/unknown"),
    annotations: { "vnd.docker.reference.digest": amd.digest },
  };

  test("keeps what was meant, what is for no platform, and what is about either", () => {
    const all = [amd, arm, unbound, attestation];

    assert.deepEqual(choosePlatforms(all, ["linux/amd64"]), [amd, unbound, attestation]);
    assert.deepEqual(choosePlatforms(all, ["linux/arm"]), [arm, unbound]);
    assert.deepEqual(choosePlatforms(all, ["linux/arm/v7", "linux/amd64"]), all);
    assert.deepEqual(choosePlatforms(all, ["all"]), all);
    assert.deepEqual(choosePlatforms([unbound], ["linux/amd64"]), [unbound]);
  });

  test("fails when none is there, and says which are", () => {
    assert.throws(
      () => choosePlatforms([amd, arm, unbound, attestation], ["linux/s390x"]),
      /nothing for linux\/s390x, only for linux\/amd64, linux\/arm\/v7$/,
    );
  });
});

describe("a copy of some platforms", () => {
  for (const wrong of ["amd64", "", "linux/", "linux/amd64/v8/x", "Linux/amd64", "linux amd64"]) {
    test(`is refused for ${JSON.stringify(wrong)}, before anything is asked`, async (t) => {
      const { source, destination, copy } = await world(t, [10]);

      await assert.rejects(copy({ platforms: [wrong] }), failsWith("invalid"));

      assert.deepEqual([...source.seen, ...destination.seen], []);
    });
  }

  test("leaves no tag behind when the index has none of them", async (t) => {
    const { source, destination, digest, copy } = await world(t, [10]);
    const index = await putIndex(source.client, digest);

    const copying = copy({
      source: { repository: "a", digest: index },
      target: { repository: "a", tag: "v1" },
      platforms: ["linux/s390x"],
    });

    await assert.rejects(copying, failsWith("not_found"));
    assert.deepEqual(await destination.client.tags("a"), []);
  });

  test("says what to do when the registry wants an index whole", async (t) => {
    const { source, destination, digest, copy } = await world(t, [10]);
    const index = await putIndex(source.client, digest);
    destination.trouble = (request, response) => {
      if (request.method !== "PUT" || !request.url?.includes("/manifests/v1")) return false;
      const errors = [{ code: "MANIFEST_BLOB_UNKNOWN", message: "blob unknown to registry" }];
      response.writeHead(400).end(JSON.stringify({ errors }));
      return true;
    };

    const copying = copy({
      source: { repository: "a", digest: index },
      target: { repository: "a", tag: "v1" },
      platforms: ["linux/amd64"],
    });

    await assert.rejects(copying, /only with all that it lists: copy without --platform/);
  });
});

/** The image for one platform, and something for another. */
async function putIndex(
  client: Awaited<ReturnType<typeof world>>["source"]["client"],
  digest: Digest,
) {
  const amd = { ...child("", "linux/amd64"), digest };
  const arm = child("elsewhere", "linux/arm64");
  const document = { schemaVersion: 2, mediaType: MEDIA_TYPES.index, manifests: [amd, arm] };
  return client.writeManifest("a", Buffer.from(JSON.stringify(document)), MEDIA_TYPES.index);
}
