import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, type TestContext, test } from "node:test";
import { Failure } from "@exclave/core";
import { writeBlobBytes } from "../content/content-store.ts";
import { bytesOf, collect, digestOf } from "../content/digest.ts";
import { describeContentStore } from "../content/testing/content-store.ts";
import { createRegistry } from "../registry/registry.ts";
import { serveRegistry } from "../registry/serve-registry.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createRegistryClient } from "./registry-client.ts";

const LOCAL = { host: "127.0.0.1", port: 0, auth: { kind: "anonymous" } } as const;

describeContentStore("the registry client", async (t) => {
  const registry = await serveRegistry({ ...LOCAL, directory: await temporaryDirectory(t) });
  t.after(() => registry.close());
  const client = createRegistryClient({ url: registry.url });
  t.after(() => client.close());
  return client;
});

type Trouble = (request: IncomingMessage, response: ServerResponse) => boolean;

/** A real registry behind a server that makes trouble first; true means the request is dealt with. */
async function troubled(t: TestContext, trouble: Trouble, options: { attemptsMax?: number } = {}) {
  const registry = createRegistry({ directory: await temporaryDirectory(t), auth: LOCAL.auth });
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(request.method ?? "");
    if (!trouble(request, response)) void registry.handle(request, response);
  });
  server.listen(0, LOCAL.host);
  await once(server, "listening");
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await registry.close();
  });
  const url = `http://${LOCAL.host}:${(server.address() as AddressInfo).port}`;
  const client = createRegistryClient({ url, backoffMs: 1, ...options });
  t.after(() => client.close());
  return { client, seen, url };
}

describe("the registry client in trouble", () => {
  for (const status of [429, 503]) {
    test(`retries after ${status}`, async (t) => {
      let left = 3;
      const { client, seen } = await troubled(t, (_request, response) => {
        if (left-- <= 0) return false;
        response.writeHead(status, { "retry-after": "0" }).end();
        return true;
      });

      assert.deepEqual(await client.tags("a"), []);

      assert.equal(seen.length, 4);
    });
  }

  test("gives up after a bounded number of tries, and says why", async (t) => {
    const always: Trouble = (_request, response) => {
      response.writeHead(503).end();
      return true;
    };
    const { client, seen } = await troubled(t, always, { attemptsMax: 3 });

    await assert.rejects(client.tags("a"), failsWith("unavailable"));

    assert.equal(seen.length, 3);
  });

  test("does not retry what cannot get better", async (t) => {
    const { client, seen } = await troubled(t, (_request, response) => {
      response.writeHead(403).end();
      return true;
    });

    await assert.rejects(client.tags("a"), failsWith("forbidden"));

    assert.deepEqual(seen, ["GET"]);
  });

  test("says unavailable when nobody listens", async (t) => {
    const server = createServer().listen(0, LOCAL.host);
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    server.close();
    const url = `http://${LOCAL.host}:${port}`;
    const client = createRegistryClient({ url, attemptsMax: 2, backoffMs: 1 });
    t.after(() => client.close());

    await assert.rejects(client.tags("a"), failsWith("unavailable"));
  });

  test("a download that breaks resumes where it stopped", async (t) => {
    const bytes = randomBytes(300_000);
    const ranges: (string | undefined)[] = [];
    const { client } = await troubled(t, (request, response) => {
      if (request.method !== "GET") return false;
      ranges.push(request.headers.range);
      if (ranges.length > 1) return false;
      response.writeHead(200, { "content-length": bytes.length });
      response.write(bytes.subarray(0, 100_000), () => response.destroy());
      return true;
    });
    const { digest } = await writeBlobBytes(client, "a", "text/plain", bytes);

    const found = await collect(client.readBlob("a", digest));

    assert.equal(digestOf(found), digest);
    assert.equal(ranges.length, 2);
    assert.match(ranges[1] ?? "", /^bytes=\d+-$/);
  });

  test("an upload that breaks resumes where the registry got to", async (t) => {
    const bytes = randomBytes(3_000_000);
    let isBroken = false;
    const { client, seen } = await troubled(t, (request) => {
      if (request.method === "PUT" && !isBroken) {
        isBroken = true;
        let received = 0;
        request.on("data", (chunk: Buffer) => {
          received += chunk.length;
          if (received > 1_000_000) request.socket.destroy();
        });
      }
      return false;
    });
    const opened: number[] = [];
    const descriptor = { digest: digestOf(bytes), size: bytes.length };

    await client.writeBlob("a", descriptor, (from) => {
      opened.push(from);
      return pieces(bytes.subarray(from));
    });

    assert.equal(
      digestOf(await collect(client.readBlob("a", descriptor.digest))),
      descriptor.digest,
    );
    assert.equal(opened[0], 0);
    assert.ok((opened[1] ?? 0) > 0, `opened at ${opened.join()}`);
    assert.ok(seen.includes("PATCH"));
  });

  test("an upload whose session is lost starts anew", async (t) => {
    const bytes = randomBytes(100_000);
    let puts = 0;
    const { client } = await troubled(t, (request, response) => {
      if (request.method !== "PUT" || puts++ > 0) return false;
      request.resume();
      request.on("end", () => response.writeHead(404).end());
      return true;
    });
    const descriptor = { digest: digestOf(bytes), size: bytes.length };

    await client.writeBlob("a", descriptor, (from) => pieces(bytes.subarray(from)));

    assert.equal(await client.headBlob("a", descriptor.digest), bytes.length);
  });

  test("a source that can be read but once is not sent twice", async (t) => {
    const bytes = randomBytes(100_000);
    const { client, seen } = await troubled(t, (request, response) => {
      if (request.method !== "PUT") return false;
      request.resume();
      request.on("end", () => response.writeHead(503).end());
      return true;
    });
    const descriptor = { digest: digestOf(bytes), size: bytes.length };

    await assert.rejects(
      client.writeBlob("a", descriptor, bytesOf(bytes)),
      failsWith("unavailable"),
    );

    assert.equal(seen.filter((method) => method === "PUT").length, 1);
    assert.equal(seen.at(-1), "DELETE");
  });

  test("follows a redirect to other storage without handing it the token", async (t) => {
    const tokens: (string | undefined)[] = [];
    const storage = createServer((request, response) => {
      tokens.push(request.headers.authorization);
      response.end("from storage");
    }).listen(0, LOCAL.host);
    await once(storage, "listening");
    t.after(() => storage.closeAllConnections());
    t.after(() => storage.close());
    const elsewhere = `http://${LOCAL.host}:${(storage.address() as AddressInfo).port}/blob`;
    const { url } = await troubled(t, (request, response) => {
      tokens.push(request.headers.authorization);
      response.writeHead(307, { location: elsewhere }).end();
      return true;
    });
    const client = createRegistryClient({ url, token: async () => "secret" });
    t.after(() => client.close());

    const found = await collect(client.readBlob("a", digestOf("from storage")));

    assert.equal(Buffer.from(found).toString(), "from storage");
    assert.deepEqual(tokens, ["Bearer secret", undefined]);
  });

  test("does not believe a manifest that has another digest", async (t) => {
    const { client } = await troubled(t, (_request, response) => {
      response.end("{}");
      return true;
    });

    await assert.rejects(client.readManifest("a", digestOf("asked")), failsWith("invalid"));
  });

  test("stops in the middle of a download when told to", async (t) => {
    const { client } = await troubled(t, (_request, response) => {
      response.writeHead(200, { "content-length": 1_000_000 });
      response.write(randomBytes(1_000));
      return true;
    });
    const stopping = new AbortController();
    const reading = async () => {
      const options = { signal: stopping.signal };
      for await (const _ of client.readBlob("a", digestOf("x"), options)) stopping.abort();
    };

    await assert.rejects(reading(), { name: "AbortError" });
  });
});

async function* pieces(bytes: Uint8Array) {
  for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
}

function failsWith(code: string) {
  return (reason: unknown) => reason instanceof Failure && reason.code === code;
}
