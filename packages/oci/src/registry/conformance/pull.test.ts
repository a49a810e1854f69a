// Distribution specification 1.1, "Pull".

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { describe, test } from "node:test";
import { MEDIA_TYPES } from "../../content/descriptor.ts";
import { digestOf } from "../../content/digest.ts";
import { errorCode, openRegistry } from "../testing/open-registry.ts";

describe("pulling", () => {
  test("GET /v2/ says that this is a registry", async (t) => {
    const { send } = await openRegistry(t);

    const response = await send("GET", "/v2/");

    assert.equal(response.status, 200);
    assert.equal(response.headers.get("docker-distribution-api-version"), "registry/2.0");
  });

  test("a manifest comes back byte by byte, by tag and by digest, with its type and digest", async (t) => {
    const { send, putManifest } = await openRegistry(t);
    const { digest, body } = await putManifest("a/b", "v1", { "com.example.unknown": [1, " 2 "] });

    for (const reference of ["v1", digest]) {
      const response = await send("GET", `/v2/a/b/manifests/${reference}`);

      assert.equal(response.status, 200);
      assert.equal(response.headers.get("content-type"), MEDIA_TYPES.manifest);
      assert.equal(response.headers.get("docker-content-digest"), digest);
      assert.equal(await response.text(), body);
    }
  });

  test("HEAD of a manifest has the headers of GET and no body", async (t) => {
    const { send, putManifest } = await openRegistry(t);
    const { digest, body } = await putManifest("a", "v1");

    const response = await send("HEAD", "/v2/a/manifests/v1");

    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), MEDIA_TYPES.manifest);
    assert.equal(response.headers.get("docker-content-digest"), digest);
    assert.equal(response.headers.get("content-length"), String(Buffer.byteLength(body)));
    assert.equal(await response.text(), "");
  });

  test("a manifest's type is the pushed one, without parameters", async (t) => {
    const { send, push } = await openRegistry(t);
    await push("a", "{}");
    const body = JSON.stringify({ schemaVersion: 2, manifests: [] });
    const headers = { "content-type": `${MEDIA_TYPES.index}; charset=utf-8` };

    await send("PUT", "/v2/a/manifests/v1", { headers, body });

    const response = await send("GET", "/v2/a/manifests/v1");
    assert.equal(response.headers.get("content-type"), MEDIA_TYPES.index);
  });

  test("a blob comes back whole, with its length and digest", async (t) => {
    const { send, push } = await openRegistry(t);
    const bytes = randomBytes(3_000_001);
    const digest = await push("a", bytes);

    const got = await send("GET", `/v2/a/blobs/${digest}`);
    const head = await send("HEAD", `/v2/a/blobs/${digest}`);

    assert.equal(got.status, 200);
    assert.equal(digestOf(new Uint8Array(await got.arrayBuffer())), digest);
    assert.equal(head.status, 200);
    assert.equal(await head.text(), "");
    for (const { headers } of [got, head]) {
      assert.equal(headers.get("content-length"), String(bytes.length));
      assert.equal(headers.get("docker-content-digest"), digest);
    }
  });

  test("a blob of no bytes is one like any other", async (t) => {
    const { send, push } = await openRegistry(t);
    const digest = await push("a", "");

    const response = await send("GET", `/v2/a/blobs/${digest}`);

    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-length"), "0");
    assert.equal(await response.text(), "");
  });

  test("a blob by sha512 comes back under that digest alone", async (t) => {
    const { send } = await openRegistry(t);
    const digest = `sha512:${createHash("sha512").update("strong").digest("hex")}`;

    const pushed = await send("POST", `/v2/a/blobs/uploads/?digest=${digest}`, { body: "strong" });

    assert.equal(pushed.status, 201);
    assert.equal(await (await send("GET", `/v2/a/blobs/${digest}`)).text(), "strong");
    assert.equal((await send("GET", `/v2/a/blobs/${digestOf("strong")}`)).status, 404);
  });

  // biome-ignore format: a table reads as a table.
  const RANGES: [string, number, string, string?][] = [
    ["bytes=2-4",  206, "234",        "bytes 2-4/10"],
    ["bytes=7-",   206, "789",        "bytes 7-9/10"],
    ["bytes=-3",   206, "789",        "bytes 7-9/10"],
    ["bytes=-30",  206, "0123456789", "bytes 0-9/10"],
    ["bytes=8-99", 206, "89",         "bytes 8-9/10"],
    ["bytes=0-0",  206, "0",          "bytes 0-0/10"],
    ["lines=1-2",  200, "0123456789"],
    ["bytes=0-1,4-5", 200, "0123456789"],
  ];
  for (const [range, status, text, contentRange] of RANGES) {
    test(`a blob's ${range} is answered with ${status}`, async (t) => {
      const { send, push } = await openRegistry(t);
      const digest = await push("a", "0123456789");

      const response = await send("GET", `/v2/a/blobs/${digest}`, { headers: { range } });

      assert.equal(response.status, status);
      assert.equal(await response.text(), text);
      assert.equal(response.headers.get("content-range"), contentRange ?? null);
    });
  }

  for (const range of ["bytes=10-", "bytes=-0", "bytes=5-4"]) {
    test(`a blob's ${range} is answered with 416`, async (t) => {
      const { send, push } = await openRegistry(t);
      const digest = await push("a", "0123456789");

      const response = await send("GET", `/v2/a/blobs/${digest}`, { headers: { range } });

      assert.equal(response.status, 416);
      assert.equal(response.headers.get("content-range"), "bytes */10");
    });
  }

  test("a long range spans many reads and is exact at both ends", async (t) => {
    const { send, push } = await openRegistry(t);
    const bytes = randomBytes(2_500_000);
    const digest = await push("a", bytes);

    const headers = { range: "bytes=1000-2400000" };
    const response = await send("GET", `/v2/a/blobs/${digest}`, { headers });

    const got = Buffer.from(await response.arrayBuffer());
    assert.deepEqual(got, bytes.subarray(1_000, 2_400_001));
  });

  test("what is not there is 404 with its code, also in a repository nobody has pushed to", async (t) => {
    const { send, push } = await openRegistry(t);
    const there = await push("a", "x");
    const absent = digestOf("absent");

    for (const path of [`/v2/a/blobs/${absent}`, `/v2/b/blobs/${there}`]) {
      const response = await send("GET", path);
      assert.equal(response.status, 404);
      assert.equal(await errorCode(response), "BLOB_UNKNOWN");
      assert.equal((await send("HEAD", path)).status, 404);
    }
    for (const path of [`/v2/a/manifests/${absent}`, "/v2/a/manifests/v1", "/v2/b/manifests/v1"]) {
      const response = await send("GET", path);
      assert.equal(response.status, 404);
      assert.equal(await errorCode(response), "MANIFEST_UNKNOWN");
      assert.equal((await send("HEAD", path)).status, 404);
    }
  });

  test("a blob is no manifest, and a manifest no blob", async (t) => {
    const { send, putManifest } = await openRegistry(t);
    const { digest } = await putManifest("a", "v1");

    assert.equal((await send("GET", `/v2/a/manifests/${digestOf("{}")}`)).status, 404);
    assert.equal((await send("GET", `/v2/a/blobs/${digest}`)).status, 404);
  });
});
