// Copies between real registries over real sockets, with trouble on either side.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { describe, test } from "node:test";
import type { Digest } from "@exclave/core";
import { readBlobBytes } from "../content/content-store.ts";
import { type Descriptor, MEDIA_TYPES } from "../content/descriptor.ts";
import type { CopyProgress } from "./copy.ts";
import { failsWith, knowsNoReferrers, putImage, type Side, world } from "./testing/copy-world.ts";

/** Whole and right at the destination, asked anew. */
async function assertThere({ client }: Side, digest: Digest, layers: readonly Descriptor[]) {
  assert.equal((await client.readManifest("a", digest)).digest, digest);
  for (const layer of layers) await readBlobBytes(client, "a", layer);
}

async function assertNothingThere({ client }: Side, digest: Digest, layers: readonly Descriptor[]) {
  assert.equal(await client.headManifest("a", digest), undefined);
  for (const layer of layers) assert.equal(await client.headBlob("a", layer.digest), undefined);
}

function isGetOf(request: IncomingMessage, { digest }: Descriptor): boolean {
  return request.method === "GET" && request.url?.endsWith(digest) === true;
}

/** Cuts the connection once that many bytes of a request have arrived. */
function cutAfter(request: IncomingMessage, bytes: number): void {
  let received = 0;
  request.on("data", (chunk: Buffer) => {
    received += chunk.length;
    if (received > bytes) request.socket.destroy();
  });
}

describe("a copy between registries", () => {
  test("takes 2 requests when nothing changed, signatures included", async (t) => {
    const { source, destination, copy } = await world(t);
    await copy({ referrers: true });
    source.seen.length = 0;
    destination.seen.length = 0;

    const { requests, copiedBytes } = await copy({ referrers: true });

    assert.equal(requests, 2);
    assert.equal(copiedBytes, 0);
    assert.deepEqual(destination.seen, ["HEAD /v2/a/manifests/…"]);
    assert.deepEqual(source.seen, ["GET /v2/a/referrers/…"]);
  });

  test("moves each blob once, in a GET and a PUT, and counts what it did", async (t) => {
    const { source, destination, layers, digest, copy } = await world(t, [5_000_000, 10, 70_000]);
    const progress: CopyProgress[] = [];

    const result = await copy({ onProgress: (step) => progress.push(step) });

    await assertThere(destination, digest, layers);
    assert.equal(result.copiedBytes, 5_070_012);
    assert.deepEqual(source.seen.filter((line) => line.includes("blobs")).length, 4);
    // For each blob: is it there, where may it go, here it is.
    const sent = destination.seen.slice(0, result.requests);
    const count = (method: string) => sent.filter((line) => line.startsWith(method)).length;
    assert.equal(count("POST"), 4);
    assert.equal(count("PUT"), 4 + 1);
    assert.equal(count("GET /v2/a/blobs/uploads"), 0);
    const { bytesPerSecond, ...last } = progress.at(-1) as CopyProgress;
    assert.deepEqual(last, { copiedBytes: 5_070_012, skippedBytes: 0, totalBytes: 5_070_012 });
    assert.ok(bytesPerSecond > 0);
  });

  test("mounts what another repository of the destination has, even when nobody named it", async (t) => {
    const { source, copy } = await world(t, [100_000, 200_000]);
    await copy();
    source.seen.length = 0;

    const result = await copy({ target: { repository: "b" } });

    assert.equal(result.mountedBytes, 300_002);
    assert.equal(result.copiedBytes, 0);
    assert.equal(source.seen.filter((line) => line.includes("blobs")).length, 0);
  });

  test("mounts by name in a registry that wants one, from where the blob really is", async (t) => {
    const { source, destination, copy } = await world(t, [100_000]);
    await copy();
    source.seen.length = 0;
    destination.seen.length = 0;
    destination.trouble = (request, response) => {
      const query = new URL(request.url ?? "", "http://x").searchParams;
      if (!query.has("mount") || query.has("from")) return false;
      response.writeHead(400).end();
      return true;
    };

    const mountFrom = ["nothing/here", "a"];
    const result = await copy({ target: { repository: "b" }, mountFrom });

    assert.equal(result.mountedBytes, 100_002);
    assert.equal(source.seen.filter((line) => line.includes("blobs")).length, 0);
    assert.equal(destination.seen.filter((line) => line.startsWith("DELETE")).length, 0);
  });

  test("brings signatures along to a registry that knows no referrers", async (t) => {
    const { source, destination, digest, copy } = await world(t, [10]);
    const subject = { mediaType: MEDIA_TYPES.manifest, digest, size: 1 };
    const signed = await putImage(source.client, "a", { subject, artifactType: "test/signature" });
    destination.trouble = knowsNoReferrers;

    await copy({ referrers: true });

    const found = await destination.client.referrers("a", digest);
    assert.deepEqual(
      found.map((entry) => [entry.digest, entry.artifactType]),
      [[signed, "test/signature"]],
    );
    assert.deepEqual(await destination.client.tags("a"), [digest.replace(":", "-")]);
  });
});

describe("a copy in trouble", () => {
  test("goes on by range when the source is cut in the middle", async (t) => {
    const { source, destination, layers, layer, content, digest, copy } = await world(t);
    const ranges: (string | undefined)[] = [];
    source.trouble = (request, response) => {
      if (!isGetOf(request, layer)) return false;
      ranges.push(request.headers.range);
      if (ranges.length > 2) return false;
      // Twice it gets a part of what it asked for, and then nothing more.
      const from = Number(/\d+/.exec(request.headers.range ?? "0")?.[0]);
      response.writeHead(from > 0 ? 206 : 200, { "content-length": content.length - from });
      response.write(content.subarray(from, from + 700_000), () => response.destroy());
      return true;
    };

    await copy();

    source.trouble = () => false;
    await assertThere(destination, digest, layers);
    assert.equal(ranges[0], undefined);
    assert.match(ranges[1] ?? "", /^bytes=[1-9]\d*-$/);
    assert.match(ranges[2] ?? "", /^bytes=[1-9]\d*-$/);
    assert.equal(destination.seen.filter((line) => line.startsWith("POST")).length, 2);
  });

  test("passes over what it has when the source knows no ranges", async (t) => {
    const { source, destination, layers, layer, content, digest, copy } = await world(t);
    let asked = 0;
    source.trouble = (request, response) => {
      if (!isGetOf(request, layer)) return false;
      response.writeHead(200, { "content-length": content.length });
      if (asked++ > 0) response.end(content);
      else response.write(content.subarray(0, 700_000), () => response.destroy());
      return true;
    };

    await copy();

    assert.equal(asked, 2);
    await assertThere(destination, digest, layers);
  });

  test("reads a source that does not say how long a blob is", async (t) => {
    const { source, destination, layers, layer, content, digest, copy } = await world(t);
    source.trouble = (request, response) => {
      if (!isGetOf(request, layer)) return false;
      response.write(content.subarray(0, 10));
      response.end(content.subarray(10));
      return true;
    };

    await copy();

    await assertThere(destination, digest, layers);
  });

  test("resumes where the destination got to when that one is cut", async (t) => {
    const { source, destination, layers, layer, digest, copy } = await world(t);
    let cuts = 0;
    destination.trouble = (request) => {
      const isBody = Number(request.headers["content-length"]) > 1_000_000;
      if (isBody && cuts++ < 1) cutAfter(request, 1_000_000);
      return false;
    };
    const ranges: (string | undefined)[] = [];
    source.trouble = (request) => {
      if (isGetOf(request, layer)) ranges.push(request.headers.range);
      return false;
    };

    const { copiedBytes } = await copy();

    await assertThere(destination, digest, layers);
    assert.equal(copiedBytes, layer.size + 2);
    assert.match(ranges[1] ?? "", /^bytes=[1-9]\d*-$/);
    assert.ok(destination.seen.some((line) => line.startsWith("PATCH")));
  });

  test("leaves nothing behind when the source's bytes are others", async (t) => {
    const { source, destination, layers, layer, digest, copy } = await world(t);
    source.trouble = (request, response) => {
      if (!isGetOf(request, layer)) return false;
      response.writeHead(200, { "content-length": layer.size }).end(randomBytes(layer.size));
      return true;
    };
    const received: boolean[] = [];
    destination.trouble = (request) => {
      const isBody = Number(request.headers["content-length"]) === layer.size;
      if (isBody) request.once("close", () => received.push(request.complete));
      return false;
    };

    await assert.rejects(copy({ target: { repository: "a", tag: "v1" } }), failsWith("invalid"));

    // It did not depend on the destination's own check: the last bytes were never sent.
    assert.deepEqual(received, [false]);

    await assertNothingThere(destination, digest, layers);
    assert.deepEqual(await destination.client.tags("a"), []);
    assert.ok(destination.seen.some((line) => line.startsWith("DELETE")));
  });

  for (const [name, change] of [
    ["fewer", -1_000],
    ["more", 1_000],
  ] as const) {
    test(`leaves nothing behind when the source has ${name} bytes than it should`, async (t) => {
      const { source, destination, layers, layer, content, digest, copy } = await world(t);
      source.trouble = (request, response) => {
        if (!isGetOf(request, layer)) return false;
        const bytes = Buffer.concat([content, randomBytes(2_000)]).subarray(0, layer.size + change);
        response.writeHead(200, { "content-length": bytes.length }).end(bytes);
        return true;
      };

      await assert.rejects(copy(), failsWith("invalid"));

      await assertNothingThere(destination, digest, layers);
    });
  }

  test("gives up on a source that stops short every time, and says so", async (t) => {
    const { source, destination, layers, layer, digest, copy } = await world(t);
    source.trouble = (request, response) => {
      if (!isGetOf(request, layer)) return false;
      response.writeHead(206, { "content-length": layer.size });
      response.flushHeaders();
      response.socket?.end();
      return true;
    };

    await assert.rejects(copy(), failsWith("unavailable"));

    await assertNothingThere(destination, digest, layers);
  });

  for (const status of [429, 503]) {
    test(`gets through a burst of ${status} on both sides`, async (t) => {
      const { source, destination, layers, digest, copy } = await world(t, [200_000, 30_000, 10]);
      for (const troubled of [source, destination]) {
        let left = 9;
        troubled.trouble = (request, response) => {
          if (left-- <= 0 || left % 3 === 0) return false;
          request.resume();
          request.on("end", () => response.writeHead(status).end());
          return true;
        };
      }

      await copy();

      await assertThere(destination, digest, layers);
    });
  }

  test("asks nothing more of a registry before the time it said is over", async (t) => {
    const { destination, layers, digest, copy } = await world(t, [1_000, 2_000, 3_000, 4_000]);
    let refusedAt: number | undefined;
    const askedAt: number[] = [];
    destination.trouble = (request, response) => {
      if (refusedAt !== undefined) askedAt.push(performance.now());
      if (request.method !== "POST" || refusedAt !== undefined) return false;
      refusedAt = performance.now();
      response.writeHead(429, { "retry-after": "1" }).end();
      return true;
    };

    await copy({ concurrency: 1 });

    assert.ok((askedAt[0] ?? 0) - (refusedAt ?? 0) > 900);
    await assertThere(destination, digest, layers);
  });

  test("does not wait for a registry that asks for hours", async (t) => {
    const { destination, copy } = await world(t);
    destination.trouble = (_request, response) => {
      response.writeHead(429, { "retry-after": "7200" }).end();
      return true;
    };

    await assert.rejects(copy(), failsWith("rate_limited"));

    assert.equal(destination.seen.length, 1);
  });

  test("stops at once when told to", async (t) => {
    const { source, destination, layers, layer, content, digest, copy } = await world(t);
    const stopping = new AbortController();
    source.trouble = (request, response) => {
      if (!isGetOf(request, layer)) return false;
      response.writeHead(200, { "content-length": content.length });
      response.write(content.subarray(0, 100_000), () => stopping.abort(new Error("enough")));
      return true;
    };

    await assert.rejects(copy({ signal: stopping.signal }), /enough/);

    await assertNothingThere(destination, digest, layers);
  });
});
