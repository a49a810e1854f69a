// How long the client waits, for whom, and how often it asks again.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from "node:net";
import { type TestContext, test } from "node:test";
import { digestOf } from "../content/digest.ts";
import { failsWith } from "../copy/testing/copy-world.ts";
import { createRegistryClient, type RegistryClient } from "./registry-client.ts";
import type { RegistryHttpOptions } from "./registry-http.ts";

const DIGEST = digestOf("a blob");

async function listening(t: TestContext, server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function clientOf(
  t: TestContext,
  handle: RequestListener,
  options: Partial<RegistryHttpOptions> = {},
): Promise<RegistryClient> {
  const url = `http://${await listening(t, createServer(handle))}`;
  const client = createRegistryClient({ url, backoffMs: 1, ...options });
  t.after(() => client.close());
  return client;
}

function pour(client: RegistryClient): Promise<void> {
  return client.pourBlob("a", DIGEST, async () => undefined);
}

test("a download waits as long as the registry asked, and asks once", async (t) => {
  const askedAt: number[] = [];
  const client = await clientOf(t, (_request, response) => {
    askedAt.push(performance.now());
    if (askedAt.length === 1) response.writeHead(429, { "retry-after": "1" }).end("too much");
    else response.end("a blob");
  });

  await pour(client);

  assert.equal(askedAt.length, 2);
  assert.ok((askedAt[1] ?? 0) - (askedAt[0] ?? 0) > 900);
});

for (const [name, retryAfter] of [
  ["no time at all", "0"],
  ["a time that is over", "Mon, 01 Jan 2024 00:00:00 GMT"],
] as const) {
  test(`a registry that asks for ${name} still gets the usual pauses`, async (t) => {
    const askedAt: number[] = [];
    const refuse = (response: ServerResponse) => {
      askedAt.push(performance.now());
      response.writeHead(429, { "retry-after": retryAfter }).end();
    };
    const client = await clientOf(t, (_request, response) => refuse(response), {
      backoffMs: 50,
      attemptsMax: 4,
    });

    await assert.rejects(pour(client), failsWith("rate_limited"));

    assert.equal(askedAt.length, 4);
    const pauses = askedAt.slice(1).map((at, n) => at - (askedAt[n] ?? 0));
    for (const [n, least] of [45, 95, 190].entries()) {
      assert.ok((pauses[n] ?? 0) >= least, `pause ${n} of ${pauses[n]} ms`);
    }
  });
}

test("a download that is refused says what the registry said", async (t) => {
  const errors = [{ code: "TOOMANYREQUESTS", message: "pull rate limit" }];
  const body = JSON.stringify({ errors });
  const client = await clientOf(
    t,
    (_request, response) => {
      response.writeHead(429, { "content-length": body.length }).end(body);
    },
    { attemptsMax: 1 },
  );

  await assert.rejects(pour(client), /pull rate limit/);
});

test("a host that takes connections and says nothing is unavailable, after two tries", async (t) => {
  let asked = 0;
  const client = await clientOf(t, () => void asked++, { idleTimeoutMs: 50 });

  await assert.rejects(client.tags("a"), failsWith("unavailable"));
  assert.equal(asked, 2);

  await assert.rejects(pour(client), failsWith("unavailable"));
  assert.equal(asked, 4);
});

/** One byte at a time, without end and without ever falling silent. */
function drip(socket: Socket, head: string, byte: string): void {
  socket.on("error", () => undefined);
  socket.once("data", () => {
    socket.write(head);
    const dripping = setInterval(() => socket.write(byte), 5);
    socket.once("close", () => clearInterval(dripping));
  });
}

for (const [name, head] of [
  ["headers", "HTTP/1.1 200 OK\r\nx-long: "],
  ["a manifest", "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"],
  ["a refusal", "HTTP/1.1 500 No\r\ncontent-length: 60000\r\n\r\n"],
] as const) {
  test(`${name} that trickle in forever are given up on`, { timeout: 20_000 }, async (t) => {
    const server = createTcpServer((socket) => drip(socket, head, "x"));
    const url = `http://${await listening(t, server)}`;
    const client = createRegistryClient({ url, attemptsMax: 1, idleTimeoutMs: 200 });
    t.after(() => client.close());

    await assert.rejects(client.readManifest("a", "latest"), failsWith("unavailable"));
  });
}

test("a connection that does not come about is given up on", async (t) => {
  // It takes the call and never says hello: to TLS that is no connection.
  const url = `https://${await listening(t, createTcpServer())}`;
  const client = createRegistryClient({ url, attemptsMax: 1, connectTimeoutMs: 50 });
  t.after(() => client.close());

  await assert.rejects(client.tags("a"), failsWith("unavailable"));
  await assert.rejects(pour(client), failsWith("unavailable"));
});

test("an address that speaks no TLS is not retried", async (t) => {
  let connections = 0;
  const server = createTcpServer((socket) => {
    connections++;
    socket.on("error", () => undefined);
    socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  const client = createRegistryClient({
    url: `https://${await listening(t, server)}`,
    backoffMs: 1,
  });
  t.after(() => client.close());

  await assert.rejects(client.tags("a"), failsWith("unavailable"));
  await assert.rejects(pour(client), failsWith("unavailable"));

  assert.equal(connections, 2);
});

test("the upload of a copy that was stopped is closed in one short try", async (t) => {
  const deleted: string[] = [];
  const stopping = new AbortController();
  const client = await clientOf(t, (request, response) => {
    request.resume();
    if (request.method === "HEAD") response.writeHead(404).end();
    if (request.method === "POST") response.writeHead(202, { location: "/upload" }).end();
    if (request.method === "PUT") stopping.abort(new Error("enough"));
    if (request.method === "DELETE") deleted.push(request.url ?? "");
  });
  const bytes = randomBytes(10);
  async function* source() {
    yield bytes;
  }
  const begunAt = performance.now();

  const descriptor = { digest: digestOf(bytes), size: bytes.length };
  const writing = client.writeBlob("a", descriptor, source, { signal: stopping.signal });

  await assert.rejects(writing, /enough/);
  assert.deepEqual(deleted, ["/upload"]);
  assert.ok(performance.now() - begunAt < 10_000);
});
