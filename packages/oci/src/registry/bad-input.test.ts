// Whatever is wrong with a request, the answer says so and the store is as it was before.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { MEDIA_TYPES } from "../content/descriptor.ts";
import { collect, digestOf } from "../content/digest.ts";
import { errorCode, filesOf, type OpenRegistry, openRegistry } from "./testing/open-registry.ts";

/** A registry with something in it, and what that looks like on disk. */
async function filled(t: TestContext) {
  const registry = await openRegistry(t);
  await registry.putManifest("a", "v1");
  return { registry, before: await filesOf(registry) };
}

/** Sends bytes as they are, ends the connection, and returns what came back. */
async function sendRaw({ url }: OpenRegistry, text: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  socket.end(text);
  return Buffer.from(await collect(socket)).toString("latin1");
}

/** A connection that ended is noticed a moment later. */
async function settled(registry: OpenRegistry, before: readonly string[]): Promise<void> {
  for (let look = 0; look < 100; look++) {
    if ((await filesOf(registry)).length === before.length) break;
    await sleep(20);
  }
  assert.deepEqual(await filesOf(registry), before);
}

const OTHER = digestOf("other");

describe("a request that is wrong leaves the store as it was", () => {
  // biome-ignore format: a table reads as a table.
  const REFUSED: [string, string, number, string][] = [
    ["GET",    "/v2/a/blobs/sha256:short",                              400, "DIGEST_INVALID"],
    ["GET",    `/v2/a/blobs/sha256:${"A".repeat(64)}`,                  400, "DIGEST_INVALID"],
    ["GET",    `/v2/a/blobs/md5:${"0".repeat(32)}`,                     400, "DIGEST_INVALID"],
    ["GET",    "/v2/a/blobs/sha256:..%2f..%2f..%2fetc%2fpasswd",        400, "DIGEST_INVALID"],
    ["GET",    "/v2/a/manifests/sha256:short",                          400, "DIGEST_INVALID"],
    ["GET",    "/v2/a/manifests/..%2f..%2fetc",                         400, "MANIFEST_INVALID"],
    ["GET",    "/v2/a/manifests/.hidden",                               400, "MANIFEST_INVALID"],
    ["GET",    `/v2/a/manifests/${"t".repeat(129)}`,                    400, "MANIFEST_INVALID"],
    ["PUT",    "/v2/a/manifests/v1%00",                                 400, "MANIFEST_INVALID"],
    ["PUT",    `/v2/a/manifests/${OTHER}?tag=../../x`,                  400, "MANIFEST_INVALID"],
    ["GET",    "/v2/a/referrers/..",                                    404, "UNSUPPORTED"],
    ["GET",    "/v2/a/referrers/nonsense",                              400, "DIGEST_INVALID"],
    ["GET",    "/v2/UPPER/tags/list",                                   400, "NAME_INVALID"],
    ["GET",    "/v2/a//b/tags/list",                                    400, "NAME_INVALID"],
    ["GET",    "/v2/a/_b/tags/list",                                    400, "NAME_INVALID"],
    ["GET",    "/v2/a/+tags/tags/list",                                 400, "NAME_INVALID"],
    ["POST",   "/v2/a%2f..%2fb/blobs/uploads/",                         400, "NAME_INVALID"],
    ["POST",   `/v2/${"a/".repeat(130)}a/blobs/uploads/`,               400, "NAME_INVALID"],
    ["POST",   "/v2/a/blobs/uploads/?mount=nonsense",                   400, "DIGEST_INVALID"],
    ["POST",   `/v2/a/blobs/uploads/?mount=${OTHER}&from=../../a`,      400, "NAME_INVALID"],
    ["POST",   "/v2/a/blobs/uploads/?digest=sha256:short",              400, "DIGEST_INVALID"],
    ["GET",    "/v2/a/blobs/uploads/unknown",                           404, "BLOB_UPLOAD_UNKNOWN"],
    ["PATCH",  "/v2/a/blobs/uploads/..%2f..%2ftmp",                     404, "BLOB_UPLOAD_UNKNOWN"],
    ["DELETE", "/v2/a/manifests/%2e%2e%2f%2btags",                      400, "MANIFEST_INVALID"],
    ["POST",   "/v2/a/manifests/latest",                                405, "UNSUPPORTED"],
    ["PUT",    "/v2/a/tags/list",                                       405, "UNSUPPORTED"],
    ["PATCH",  `/v2/a/blobs/${OTHER}`,                                  405, "UNSUPPORTED"],
    ["GET",    "/elsewhere",                                            404, "UNSUPPORTED"],
    ["POST",   "/v2/",                                                  405, "UNSUPPORTED"],
    ["GET",    "/v2/../../etc/passwd",                                  404, "UNSUPPORTED"],
  ];
  for (const [method, path, status, code] of REFUSED) {
    test(`${method} ${path.slice(0, 60)} is ${status} ${code}`, async (t) => {
      const { registry, before } = await filled(t);

      const response = await registry.send(method, path, method === "PUT" ? { body: "{}" } : {});

      assert.equal(response.status, status);
      assert.equal(await errorCode(response), code);
      assert.equal(response.headers.has("allow"), status === 405);
      assert.deepEqual(await filesOf(registry), before);
    });
  }

  test("a target that is no path of the registry is 404, with slashes or without", async (t) => {
    const { registry, before } = await filled(t);

    for (const target of ["//", "//v2/", "///v2/a/tags/list", "//[", "*"]) {
      const method = target === "*" ? "OPTIONS" : "GET";
      const answer = await sendRaw(registry, `${method} ${target} HTTP/1.1\r\nhost: r\r\n\r\n`);
      assert.match(answer, /^HTTP\/1\.1 404 /, target);
    }
    assert.deepEqual(await filesOf(registry), before);
  });

  test("a wrong digest is 400 DIGEST_INVALID, each way of pushing", async (t) => {
    const { registry, before } = await filled(t);
    const { send, begin } = registry;
    const chunked = await begin("a");
    await send("PATCH", chunked, { body: "wrong" });

    const answers = [
      await send("POST", `/v2/a/blobs/uploads/?digest=${OTHER}`, { body: "wrong" }),
      await send("PUT", `${await begin("a")}?digest=${OTHER}`, { body: "wrong" }),
      await send("PUT", `${chunked}?digest=${OTHER}`),
    ];

    for (const response of answers) {
      assert.equal(response.status, 400);
      assert.equal(await errorCode(response), "DIGEST_INVALID");
    }
    assert.equal((await send("HEAD", `/v2/a/blobs/${OTHER}`)).status, 404);
    assert.deepEqual(await filesOf(registry), before);
  });

  test("wrong bytes under the digest of another repository's blob do not open that one", async (t) => {
    const { registry } = await filled(t);
    const digest = await registry.push("private", "secret");
    const before = await filesOf(registry);

    await registry.send("POST", `/v2/mine/blobs/uploads/?digest=${digest}`, { body: "guess" });

    assert.equal((await registry.send("GET", `/v2/mine/blobs/${digest}`)).status, 404);
    assert.deepEqual(await filesOf(registry), before);
  });

  test("a body that ends before its Content-Length is not taken for a whole one", async (t) => {
    const { registry, before } = await filled(t);
    const digest = digestOf("half");
    const head = `POST /v2/a/blobs/uploads/?digest=${digest} HTTP/1.1\r\nhost: r\r\ncontent-length: 100\r\n\r\n`;

    const answer = await sendRaw(registry, `${head}half`);

    assert.ok(!answer.includes("201"));
    await settled(registry, before);
    assert.equal((await registry.send("HEAD", `/v2/a/blobs/${digest}`)).status, 404);
  });

  test("a manifest that is cut off is not taken, also when what came is one", async (t) => {
    const { registry, before } = await filled(t);
    const body = JSON.stringify({ schemaVersion: 2, manifests: [] });
    const type = `content-type: ${MEDIA_TYPES.index}`;
    const head = `PUT /v2/a/manifests/cut HTTP/1.1\r\nhost: r\r\n${type}\r\ncontent-length: 500\r\n\r\n`;

    const answer = await sendRaw(registry, `${head}${body}`);

    assert.ok(!answer.includes("201"));
    await settled(registry, before);
    assert.equal((await registry.send("HEAD", "/v2/a/manifests/cut")).status, 404);
  });

  test("bytes beyond the Content-Length are no part of the blob", async (t) => {
    const { registry } = await filled(t);
    const digest = digestOf("1234");
    const head = `POST /v2/a/blobs/uploads/?digest=${digest} HTTP/1.1\r\nhost: r\r\ncontent-length: 4\r\n\r\n`;

    const answer = await sendRaw(registry, `${head}1234 and much more`);

    assert.match(answer, /HTTP\/1\.1 400 /);
    const got = await registry.send("GET", `/v2/a/blobs/${digest}`);
    if (got.status !== 404) assert.equal(await got.text(), "1234");
    const longer = digestOf("1234 and much more");
    assert.equal((await registry.send("HEAD", `/v2/a/blobs/${longer}`)).status, 404);
  });

  test("two lengths, or a length and chunks, are refused before anything is read", async (t) => {
    const { registry, before } = await filled(t);
    const path = `POST /v2/a/blobs/uploads/?digest=${digestOf("x")} HTTP/1.1\r\nhost: r\r\n`;

    const twice = await sendRaw(registry, `${path}content-length: 1\r\ncontent-length: 2\r\n\r\nx`);
    const both = `${path}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n`;

    assert.match(twice, /^HTTP\/1\.1 400 /);
    assert.match(await sendRaw(registry, both), /^HTTP\/1\.1 400 /);
    assert.deepEqual(await filesOf(registry), before);
  });

  test("a chunk that was cut off can be gone on with", async (t) => {
    const { registry } = await filled(t);
    const location = await registry.begin("a");
    const head = `PATCH ${location} HTTP/1.1\r\nhost: r\r\ncontent-length: 100\r\n\r\n`;

    await sendRaw(registry, `${head}0123`);

    let status = await registry.send("GET", location);
    for (let look = 0; look < 100 && status.headers.get("range") !== "0-3"; look++) {
      await sleep(20);
      status = await registry.send("GET", location);
    }
    assert.equal(status.headers.get("range"), "0-3");
    const done = await registry.send("PUT", `${location}?digest=${digestOf("012345")}`, {
      headers: { "content-range": "4-5" },
      body: "45",
    });
    assert.equal(done.status, 201);
  });

  test("a manifest that is too large is 413, whatever length it claims", async (t) => {
    const { registry, before } = await filled(t);
    const body = " ".repeat(4 * 1024 * 1024 + 1);

    const response = await registry.send("PUT", "/v2/a/manifests/large", {
      headers: { "content-type": MEDIA_TYPES.manifest },
      body,
    });

    assert.equal(response.status, 413);
    assert.equal(await errorCode(response), "MANIFEST_INVALID");
    assert.deepEqual(await filesOf(registry), before);
  });
});
