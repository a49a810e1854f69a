// Distribution specification 1.1, "Pushing manifests".

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import { MEDIA_TYPES } from "../../content/descriptor.ts";
import { digestOf } from "../../content/digest.ts";
import { EMPTY, errorCode, type OpenRegistry, openRegistry } from "../testing/open-registry.ts";

const MISSING = { mediaType: MEDIA_TYPES.layerTar, digest: digestOf("missing"), size: 7 };

function put({ send }: OpenRegistry, reference: string, body: string, type?: string) {
  const headers = { "content-type": type ?? MEDIA_TYPES.manifest };
  return send("PUT", `/v2/a/manifests/${reference}`, { headers, body });
}

describe("pushing a manifest", () => {
  test("by tag and by digest, with where it is", async (t) => {
    const { send, putManifest } = await openRegistry(t);

    const byTag = await putManifest("a", "v1");
    const byDigest = await putManifest("a", byTag.digest);

    for (const { response, digest } of [byTag, byDigest]) {
      assert.equal(response.status, 201);
      assert.equal(response.headers.get("docker-content-digest"), digest);
      assert.equal((await send("GET", response.headers.get("location") ?? "")).status, 200);
    }
  });

  test("moves a tag that is there", async (t) => {
    const { send, putManifest } = await openRegistry(t);
    const first = await putManifest("a", "latest", { annotations: { n: "1" } });

    const second = await putManifest("a", "latest", { annotations: { n: "2" } });

    const now = await send("HEAD", "/v2/a/manifests/latest");
    assert.equal(now.headers.get("docker-content-digest"), second.digest);
    assert.equal((await send("HEAD", `/v2/a/manifests/${first.digest}`)).status, 200);
  });

  test("by digest with several tags at once", async (t) => {
    const { send, putManifest } = await openRegistry(t);
    const { digest } = await putManifest("a", "first");

    const { response } = await putManifest("a", `${digest}?tag=one&tag=two`);

    assert.equal(response.status, 201);
    assert.equal(response.headers.get("oci-tag"), "one, two");
    assert.equal((await send("HEAD", "/v2/a/manifests/two")).status, 200);
    const wrong = await putManifest("a", `${digest}?tag=..`);
    assert.equal(await errorCode(wrong.response), "TAG_INVALID");
  });

  test("by sha512", async (t) => {
    const registry = await openRegistry(t);
    await registry.push("a", "{}");
    const body = JSON.stringify({ schemaVersion: 2, config: EMPTY, layers: [] });
    const digest = `sha512:${createHash("sha512").update(body).digest("hex")}`;

    const pushed = await put(registry, digest, body);

    assert.equal(pushed.status, 201);
    const got = await registry.send("GET", `/v2/a/manifests/${digest}`);
    assert.equal(got.headers.get("docker-content-digest"), digest);
    assert.equal(await got.text(), body);
  });

  test("about another one says which, also when that one is not here", async (t) => {
    const { putManifest } = await openRegistry(t);
    const subject = { mediaType: MEDIA_TYPES.manifest, digest: digestOf("elsewhere"), size: 9 };

    const { response } = await putManifest("a", "signature", { subject });

    assert.equal(response.status, 201);
    assert.equal(response.headers.get("oci-subject"), subject.digest);
  });

  test("an index, whether or not all it lists is here", async (t) => {
    const { putManifest } = await openRegistry(t);
    const { digest, body } = await putManifest("a", "linux");
    const here = { mediaType: MEDIA_TYPES.manifest, digest, size: body.length };
    const elsewhere = { ...here, digest: digestOf("another platform") };

    const { response } = await putManifest("a", "all", { manifests: [here, elsewhere] });
    const nested = await putManifest("a", "nested", {
      manifests: [{ ...here, mediaType: MEDIA_TYPES.index, digest: digestOf("an index") }],
    });

    assert.equal(response.status, 201);
    assert.equal(nested.response.status, 201);
  });

  test("without layers, with data in descriptors, and with an artifact type", async (t) => {
    const { putManifest } = await openRegistry(t);

    const bare = await putManifest("a", "bare");
    const data = await putManifest("a", "data", { config: { ...EMPTY, data: "e30=" } });
    const typed = await putManifest("a", "typed", { artifactType: "application/vnd.example" });

    for (const { response } of [bare, data, typed]) assert.equal(response.status, 201);
  });

  test("with layers that may only be had elsewhere", async (t) => {
    const { putManifest } = await openRegistry(t);
    const foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
    const kept = "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip";

    for (const layer of [
      { ...MISSING, mediaType: kept },
      { ...MISSING, mediaType: foreign },
      { ...MISSING, urls: ["https://example.com/layer"] },
    ]) {
      const { response } = await putManifest("a", "t", { layers: [layer] });
      assert.equal(response.status, 201);
    }
  });

  test("whose blobs are missing is refused, unless the registry was told to take it", async (t) => {
    const strict = await openRegistry(t);
    const lenient = await openRegistry(t, { mayLackBlobs: true });
    await strict.push("b", "missing");

    const refused = await strict.putManifest("a", "t", { layers: [MISSING] });
    const taken = await lenient.putManifest("a", "t", { layers: [MISSING] });

    assert.equal(refused.response.status, 404);
    assert.equal(await errorCode(refused.response), "MANIFEST_BLOB_UNKNOWN");
    assert.equal((await strict.send("GET", "/v2/a/manifests/t")).status, 404);
    assert.equal((await strict.send("GET", `/v2/a/manifests/${refused.digest}`)).status, 404);
    assert.equal(taken.response.status, 201);
    assert.equal((await lenient.send("GET", "/v2/a/manifests/t")).status, 200);
  });

  test("of four megabytes is taken, of one byte more is 413", async (t) => {
    const registry = await openRegistry(t);
    await registry.push("a", "{}");
    const short = JSON.stringify({ schemaVersion: 2, config: EMPTY, layers: [] });
    const large = short + " ".repeat(4 * 1024 * 1024 - short.length);

    const taken = await put(registry, "large", large);
    const refused = await put(registry, "larger", `${large} `);

    assert.equal(taken.status, 201);
    assert.equal(refused.status, 413);
    assert.equal(await errorCode(refused), "MANIFEST_INVALID");
    assert.equal((await registry.send("HEAD", "/v2/a/manifests/larger")).status, 404);
  });

  test("that is not one, or not the one it is said to be, is refused", async (t) => {
    const registry = await openRegistry(t);
    await registry.push("a", "{}");
    const body = JSON.stringify({ schemaVersion: 2, config: EMPTY, layers: [] });

    assert.equal(await errorCode(await put(registry, "t", "not json")), "MANIFEST_INVALID");
    assert.equal(await errorCode(await put(registry, "t", "{}")), "MANIFEST_INVALID");
    assert.equal(await errorCode(await put(registry, "t", body, "text/plain")), "MANIFEST_INVALID");
    assert.equal(await errorCode(await put(registry, digestOf("other"), body)), "DIGEST_INVALID");
    assert.equal((await registry.send("GET", "/v2/a/manifests/t")).status, 404);
  });

  test("that could be taken for something else than it is said to be is refused", async (t) => {
    const registry = await openRegistry(t);
    await registry.push("a", "{}");
    const image = { schemaVersion: 2, config: EMPTY, layers: [] };
    const both = JSON.stringify({ ...image, manifests: [] });
    const other = JSON.stringify({ ...image, mediaType: MEDIA_TYPES.dockerManifest });

    const answers = [
      await put(registry, "t", both),
      await put(registry, "t", both, MEDIA_TYPES.index),
      await put(registry, "t", other),
    ];

    for (const answer of answers) assert.equal(await errorCode(answer), "MANIFEST_INVALID");
    assert.equal((await put(registry, "t", other, MEDIA_TYPES.dockerManifest)).status, 201);
  });
});
