// Token services that are slow, broken or busy, and what whoever asked them is told.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { failsWith } from "../../copy/testing/copy-world.ts";
import { createRegistryClient } from "../registry-client.ts";
import { askJson } from "./json-request.ts";

async function serving(t: TestContext, handle: RequestListener): Promise<URL> {
  const server = createServer(handle);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/token`);
}

test("a body that comes a byte at a time ends with the time for the whole", async (t) => {
  const url = await serving(t, (_request, response) => {
    response.writeHead(200);
    const drip = setInterval(() => response.write(" "), 5);
    response.once("close", () => clearInterval(drip));
  });

  await assert.rejects(askJson({ url, timeoutMs: 200 }), failsWith("unavailable"));
});

// biome-ignore format: a table reads as a table.
const BROKEN: readonly (readonly [string, (response: ServerResponse) => unknown])[] = [
  ["a body that breaks off", (r) => r.writeHead(200, { "content-length": 9 }).write("{", () => r.destroy())],
  ["one that is no JSON", (r) => r.end("<html>")],
  ["one without a token", (r) => r.end('{"expires_in":"soon"}')],
];

for (const [name, answer] of BROKEN) {
  test(`an answer with ${name} is the service's fault, and may be better later`, async (t) => {
    const realm = await serving(t, (_request, response) => void answer(response));
    const registry = await serving(t, (_request, response) => {
      response.writeHead(401, { "www-authenticate": `Bearer realm="${realm.href}"` }).end();
    });
    const client = createRegistryClient({ url: registry.origin, attemptsMax: 1 });
    t.after(() => client.close());

    await assert.rejects(client.headManifest("a", "latest"), failsWith("unavailable"));
  });
}

test("a token service that asks for patience gets it, and then a retry", async (t) => {
  const askedAt: number[] = [];
  const realm = await serving(t, (_request, response) => {
    askedAt.push(performance.now());
    if (askedAt.length === 1) response.writeHead(429, { "retry-after": "1" }).end();
    else response.end(JSON.stringify({ token: "t" }));
  });
  const registry = await serving(t, (request, response) => {
    const isIn = request.headers.authorization === "Bearer t";
    const headers = { "www-authenticate": `Bearer realm="${realm.href}"` };
    response.writeHead(isIn ? 404 : 401, headers).end();
  });
  const client = createRegistryClient({ url: registry.origin, backoffMs: 1 });
  t.after(() => client.close());

  assert.equal(await client.headManifest("a", "latest"), undefined);

  assert.equal(askedAt.length, 2);
  assert.ok((askedAt[1] ?? 0) - (askedAt[0] ?? 0) > 900);
});
