// Distribution specification 1.1, "Content management": deleting.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Descriptor, MEDIA_TYPES } from "../../content/descriptor.ts";
import { digestOf } from "../../content/digest.ts";
import { errorCode, jsonOf, openRegistry } from "../testing/open-registry.ts";

describe("deleting", () => {
  test("a tag leaves the manifest and its other tags", async (t) => {
    const { send, putManifest } = await openRegistry(t);
    const { digest } = await putManifest("a", "one");
    await putManifest("a", "two");

    const deleted = await send("DELETE", "/v2/a/manifests/one");

    assert.equal(deleted.status, 202);
    assert.equal((await send("GET", "/v2/a/manifests/one")).status, 404);
    assert.equal((await send("GET", "/v2/a/manifests/two")).status, 200);
    assert.equal((await send("GET", `/v2/a/manifests/${digest}`)).status, 200);
  });

  test("a manifest takes its tags and its place among referrers along", async (t) => {
    const { send, putManifest } = await openRegistry(t);
    const subject = { mediaType: MEDIA_TYPES.manifest, digest: digestOf("x"), size: 1 };
    const { digest } = await putManifest("a", "one", { subject });
    await putManifest("a", "two", { subject });
    await putManifest("a", "other");

    const deleted = await send("DELETE", `/v2/a/manifests/${digest}`);

    assert.equal(deleted.status, 202);
    assert.equal((await send("GET", `/v2/a/manifests/${digest}`)).status, 404);
    const { tags } = await jsonOf<{ tags: string[] }>(await send("GET", "/v2/a/tags/list"));
    assert.deepEqual(tags, ["other"]);
    const referrers = await send("GET", `/v2/a/referrers/${subject.digest}`);
    assert.deepEqual((await jsonOf<{ manifests: Descriptor[] }>(referrers)).manifests, []);
  });

  test("a blob takes it from this repository and no other", async (t) => {
    const { send, push } = await openRegistry(t);
    const digest = await push("a", "shared");
    await push("b", "shared");

    const deleted = await send("DELETE", `/v2/a/blobs/${digest}`);

    assert.equal(deleted.status, 202);
    assert.equal((await send("HEAD", `/v2/a/blobs/${digest}`)).status, 404);
    assert.equal(await (await send("GET", `/v2/b/blobs/${digest}`)).text(), "shared");
  });

  test("what is not there is 404", async (t) => {
    const { send, putManifest } = await openRegistry(t);
    await putManifest("a", "v1");
    const absent = digestOf("absent");

    const blob = await send("DELETE", `/v2/a/blobs/${absent}`);
    const manifest = await send("DELETE", `/v2/a/manifests/${absent}`);
    const tag = await send("DELETE", "/v2/a/manifests/v2");

    assert.deepEqual([blob.status, manifest.status, tag.status], [404, 404, 404]);
    assert.equal(await errorCode(blob), "BLOB_UNKNOWN");
    assert.equal(await errorCode(manifest), "MANIFEST_UNKNOWN");
    assert.equal(await errorCode(tag), "MANIFEST_UNKNOWN");
  });

  test("and pushing again brings it back", async (t) => {
    const { send, putManifest } = await openRegistry(t);
    const { digest } = await putManifest("a", "v1");
    await send("DELETE", `/v2/a/manifests/${digest}`);
    await send("DELETE", `/v2/a/blobs/${digestOf("{}")}`);

    const { response } = await putManifest("a", "v1");

    assert.equal(response.status, 201);
    assert.equal((await send("GET", `/v2/a/manifests/${digest}`)).status, 200);
  });
});
