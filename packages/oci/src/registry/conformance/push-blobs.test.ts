// Distribution specification 1.1, "Pushing blobs".

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { digestOf } from "../../content/digest.ts";
import { errorCode, type OpenRegistry, openRegistry } from "../testing/open-registry.ts";

async function textOf({ send }: OpenRegistry, response: Response): Promise<string> {
  return (await send("GET", response.headers.get("location") ?? "")).text();
}

function chunk({ send }: OpenRegistry, location: string, from: number, text: string) {
  const headers = { "content-range": `${from}-${from + text.length - 1}` };
  return send("PATCH", location, { headers, body: text });
}

describe("pushing a blob", () => {
  test("POST then PUT: the whole of it in the second request", async (t) => {
    const registry = await openRegistry(t);
    const location = await registry.begin("a");

    const done = await registry.send("PUT", `${location}?digest=${digestOf("whole")}`, {
      headers: { "content-type": "application/octet-stream" },
      body: "whole",
    });

    assert.equal(done.status, 201);
    assert.equal(done.headers.get("docker-content-digest"), digestOf("whole"));
    assert.equal(await textOf(registry, done), "whole");
  });

  test("POST alone, with the digest", async (t) => {
    const registry = await openRegistry(t);

    const path = `/v2/a/blobs/uploads/?digest=${digestOf("whole")}`;
    const done = await registry.send("POST", path, { body: "whole" });

    assert.equal(done.status, 201);
    assert.equal(await textOf(registry, done), "whole");
  });

  test("in chunks, each telling where it belongs", async (t) => {
    const registry = await openRegistry(t);
    const { send } = registry;
    const location = await registry.begin("a");

    const first = await chunk(registry, location, 0, "0123");
    const second = await chunk(registry, location, 4, "4567");
    const done = await send("PUT", `${location}?digest=${digestOf("0123456789")}`, {
      headers: { "content-range": "8-9" },
      body: "89",
    });

    assert.equal(first.status, 202);
    assert.equal(first.headers.get("range"), "0-3");
    assert.equal(second.headers.get("range"), "0-7");
    assert.equal(done.status, 201);
    assert.equal(await textOf(registry, done), "0123456789");
    assert.equal((await send("GET", location)).status, 404);
  });

  test("in chunks, closed by a PUT without a body", async (t) => {
    const registry = await openRegistry(t);
    const location = await registry.begin("a");
    await chunk(registry, location, 0, "all of it");

    const done = await registry.send("PUT", `${location}?digest=${digestOf("all of it")}`);

    assert.equal(done.status, 201);
    assert.equal(await textOf(registry, done), "all of it");
  });

  test("as a stream of unknown length", async (t) => {
    const registry = await openRegistry(t);
    const bytes = randomBytes(3_000_000);
    const location = await registry.begin("a");
    const body = new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += 100_000) {
          controller.enqueue(new Uint8Array(bytes.subarray(at, at + 100_000)));
        }
        controller.close();
      },
    });

    const streamed = await registry.send("PATCH", location, {
      body,
      duplex: "half",
    });
    const done = await registry.send("PUT", `${location}?digest=${digestOf(bytes)}`);

    assert.equal(streamed.headers.get("range"), `0-${bytes.length - 1}`);
    assert.equal(done.status, 201);
  });

  test("a chunk out of order, repeated or of another length is 416 and says where to go on", async (t) => {
    const registry = await openRegistry(t);
    const location = await registry.begin("a");
    await chunk(registry, location, 0, "0123");
    const lying = { headers: { "content-range": "4-9" }, body: "45" };

    for (const response of [
      await chunk(registry, location, 6, "67"),
      await chunk(registry, location, 0, "0123"),
      await registry.send("PATCH", location, lying),
      await registry.send("PUT", `${location}?digest=${digestOf("x")}`, lying),
    ]) {
      assert.equal(response.status, 416);
      assert.equal(response.headers.get("range"), "0-3");
      assert.equal(response.headers.get("location"), location);
    }
    assert.equal((await chunk(registry, location, 4, "45")).status, 202);
  });

  test("GET says how far an upload is, to go on from there", async (t) => {
    const registry = await openRegistry(t);
    const location = await registry.begin("a");
    await chunk(registry, location, 0, "01234");

    const status = await registry.send("GET", location);

    assert.equal(status.status, 204);
    assert.equal(status.headers.get("range"), "0-4");
    assert.equal(status.headers.get("location"), location);
  });

  test("DELETE ends an upload and leaves nothing of it", async (t) => {
    const registry = await openRegistry(t);
    const location = await registry.begin("a");
    await chunk(registry, location, 0, "half");

    const cancelled = await registry.send("DELETE", location);

    assert.equal(cancelled.status, 204);
    const late = await registry.send("PUT", `${location}?digest=${digestOf("half")}`);
    assert.equal(late.status, 404);
    assert.equal(await errorCode(late), "BLOB_UPLOAD_UNKNOWN");
    assert.deepEqual(await readdir(join(registry.directory, "tmp")), []);
  });

  test("an upload belongs to its repository", async (t) => {
    const registry = await openRegistry(t);
    const location = (await registry.begin("a")).replace("/v2/a/", "/v2/b/");

    const response = await registry.send("PATCH", location, { body: "x" });

    assert.equal(await errorCode(response), "BLOB_UPLOAD_UNKNOWN");
  });

  test("a blob of no bytes, each way", async (t) => {
    const registry = await openRegistry(t);
    const digest = digestOf("");

    const alone = await registry.send("POST", `/v2/a/blobs/uploads/?digest=${digest}`);
    const put = await registry.send("PUT", `${await registry.begin("b")}?digest=${digest}`);

    assert.equal(alone.status, 201);
    assert.equal(put.status, 201);
    assert.equal((await registry.send("HEAD", `/v2/b/blobs/${digest}`)).status, 200);
  });

  test("by sha512, named ahead or only at the end", async (t) => {
    const registry = await openRegistry(t);
    const digest = `sha512:${createHash("sha512").update("strong").digest("hex")}`;

    for (const query of ["?digest-algorithm=sha512", ""]) {
      const location = await registry.begin("a", query);
      const done = await registry.send("PUT", `${location}?digest=${digest}`, { body: "strong" });
      assert.equal(done.status, 201);
      assert.equal(await textOf(registry, done), "strong");
    }
    const unknown = await registry.send("POST", "/v2/a/blobs/uploads/?digest-algorithm=md5");
    assert.equal(await errorCode(unknown), "DIGEST_INVALID");
  });

  test("again, when it is there already", async (t) => {
    const { push, send } = await openRegistry(t);
    await push("a", "same");

    const digest = await push("a", "same");

    assert.equal(await (await send("GET", `/v2/a/blobs/${digest}`)).text(), "same");
  });
});

describe("mounting a blob", () => {
  test("from a named repository", async (t) => {
    const { send, push } = await openRegistry(t);
    const digest = await push("a", "shared");
    assert.equal((await send("HEAD", `/v2/b/blobs/${digest}`)).status, 404);

    const mounted = await send("POST", `/v2/b/blobs/uploads/?mount=${digest}&from=a`);

    assert.equal(mounted.status, 201);
    assert.equal(mounted.headers.get("location"), `/v2/b/blobs/${digest}`);
    assert.equal(await (await send("GET", `/v2/b/blobs/${digest}`)).text(), "shared");
  });

  test("from wherever it is, when no repository is named", async (t) => {
    const { send, push } = await openRegistry(t);
    const digest = await push("deep/in/here", "shared");

    const mounted = await send("POST", `/v2/b/blobs/uploads/?mount=${digest}`);

    assert.equal(mounted.status, 201);
    assert.equal((await send("HEAD", `/v2/b/blobs/${digest}`)).status, 200);
  });

  test("opens an upload when the blob is not in that repository, or in none", async (t) => {
    const { send, push } = await openRegistry(t);
    const digest = await push("a", "shared");
    const mount = (query: string) => send("POST", `/v2/d/blobs/uploads/?${query}`);

    for (const response of [
      await mount(`mount=${digest}&from=nowhere`),
      await mount(`mount=${digestOf("unknown")}`),
      await mount(`mount=${digestOf("unknown")}&from=a`),
    ]) {
      assert.equal(response.status, 202);
      assert.match(response.headers.get("location") ?? "", /^\/v2\/d\/blobs\/uploads\//);
    }
    assert.equal((await send("HEAD", `/v2/d/blobs/${digest}`)).status, 404);
  });

  test("does not bring back what was deleted everywhere", async (t) => {
    const { send, push } = await openRegistry(t);
    const digest = await push("a", "gone");
    await send("DELETE", `/v2/a/blobs/${digest}`);

    assert.equal((await send("POST", `/v2/b/blobs/uploads/?mount=${digest}`)).status, 202);
    assert.equal((await send("HEAD", `/v2/b/blobs/${digest}`)).status, 404);
  });
});
