import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, type TestContext, test } from "node:test";
import { Digest, digestOfBytes, Failure } from "@exclave/core";
import { givenAccess } from "../credentials/given-access.ts";
import { createRegistryClient } from "./registry-client.ts";

const content = new TextEncoder().encode("content");
const digest = Digest.parse(digestOfBytes(content));

/** A host that answers so, and counts who came. */
async function host(t: TestContext, answer: RequestListener) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    answer(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

async function read(url: string, origins?: readonly string[]): Promise<string> {
  const access = givenAccess({ credential: "secret" });
  const client = createRegistryClient({ url, origins, attemptsMax: 1, ...access });
  try {
    const chunks: Uint8Array[] = [];
    for await (const chunk of client.readBlob("r", digest)) chunks.push(chunk);
    let poured = 0;
    await client.pourBlob("r", digest, async (chunk) => void (poured += chunk.length));
    assert.equal(poured, content.length);
    return Buffer.concat(chunks).toString();
  } finally {
    client.close();
  }
}

const isForbidden = (reason: unknown) => reason instanceof Failure && reason.code === "forbidden";

describe("a registry with a list of origins", () => {
  test("may send us to one of them and to itself, and nowhere else", async (t) => {
    const other = await host(t, (_, response) => response.end(content));
    const registry = await host(t, (request, response) => {
      if (request.url === "/here") response.end(content);
      else response.writeHead(307, { location: `${other.url}/blob` }).end();
    });
    const own = await host(t, (request, response) => {
      if (request.url === "/here") response.end(content);
      else response.writeHead(307, { location: "/here" }).end();
    });

    await assert.rejects(read(registry.url, ["http://vendor.test"]), isForbidden);
    assert.deepEqual(other.asked, []);
    assert.equal(await read(registry.url, [other.url]), "content");
    assert.equal(await read(registry.url), "content");
    assert.equal(await read(own.url, []), "content");
  });

  test("gets no credential sent to a token service elsewhere", async (t) => {
    const tokens = await host(t, (_, response) =>
      response.end(JSON.stringify({ token: "t", expires_in: 60 })),
    );
    const registry = await host(t, (request, response) => {
      const challenge = `Bearer realm="${tokens.url}/token",service="s"`;
      if (request.headers.authorization === "Bearer t") response.end(content);
      else response.writeHead(401, { "www-authenticate": challenge }).end();
    });

    await assert.rejects(read(registry.url, ["http://vendor.test"]), isForbidden);
    assert.deepEqual(tokens.asked, []);
    assert.equal(await read(registry.url, [tokens.url]), "content");
  });
});

describe("the pages of a list", () => {
  const clientOf = (t: TestContext, url: string, origins?: readonly string[]) => {
    const client = createRegistryClient({ url, origins, attemptsMax: 1 });
    t.after(() => client.close());
    return client;
  };

  test("lead only where the registry may send us", async (t) => {
    const other = await host(t, (_, response) => response.end('{"tags":["b"]}'));
    const registry = await host(t, (_, response) => {
      response.setHeader("link", `<${other.url}/v2/r/tags/list?last=a>; rel="next"`);
      response.end('{"tags":["a"]}');
    });

    await assert.rejects(clientOf(t, registry.url, ["http://vendor.test"]).tags("r"), isForbidden);

    assert.deepEqual(other.asked, []);
    assert.deepEqual(await clientOf(t, registry.url, [other.url]).tags("r"), ["a", "b"]);
  });

  test("have an end, though a registry names ever new ones", async (t) => {
    const registry = await host(t, ({ url = "" }, response) => {
      response.setHeader("link", `<${url}>; rel="next"`);
      response.end(JSON.stringify({ schemaVersion: 2, tags: ["a"], manifests: [] }));
    });
    const client = clientOf(t, registry.url);
    const isTooLarge = (reason: unknown) =>
      reason instanceof Failure && reason.code === "too_large";

    await assert.rejects(client.tags("r"), isTooLarge);
    await assert.rejects(client.referrers("r", digest), isTooLarge);
  });
});
