// Servers that do not keep to HTTP: broken status lines, headers of every kind, bodies shorter and
// longer than announced, pieces cut anywhere, silence and closed doors, in one seed's worth of
// combinations. Whatever comes, the client ends in time, with bytes or with a Failure, and holds little.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "@exclave/core";
import fc from "fast-check";
import { createRegistryHttp } from "./registry-http.ts";

const SEED = 20_261_116;
const IDLE_MS = 150;
/** Far beyond what an idle limit of 150 ms and a few redirects can take, also on a busy machine. */
const HANGS_AFTER_MS = 30_000;
/** Connections read into 1 MiB each, and what is dropped is collected late. */
const HELD_BYTES_MAX = 256 * 1024 * 1024;

interface Script {
  readonly pieces: readonly Buffer[];
  readonly ending: "end" | "destroy" | "hang" | "repeat";
}

const statusLine = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("HTTP/1.1 200 OK", "HTTP/1.1 206 Partial Content") },
  fc.constantFrom(
    "HTTP/1.1 302 Found",
    "HTTP/1.1 401 Unauthorized",
    "HTTP/1.1 429 Slow",
    "HTTP/1.1 503 Later",
    "HTTP/1.1 100 Continue",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 000 ?",
    "HTTP/1.1 20x OK",
    "HTTP/2 200",
    "ICY 200 OK",
    "\0\0\0",
    "",
  ),
);
const header = fc.oneof(
  fc.constantFrom(
    "content-length: 5",
    "Content-Length: 0",
    "content-length: -1",
    "content-length: 5, 5",
    "content-length: 0x5",
    "content-length: 99999999999999999999",
    "content-length: 7",
    "content-length : 5",
    "transfer-encoding: chunked",
    "transfer-encoding: identity",
    "content-encoding: gzip",
    "connection: close",
    "location: /again",
    "location: http://[::1",
    "location: ftp://127.0.0.1/x",
    "location: //",
    "retry-after: 0",
    'www-authenticate: Bearer realm="http://127.0.0.1:1/token"',
    'www-authenticate: Bearer realm=,,,"',
    "__proto__: x",
    "no colon at all",
    ": no name",
    " folded: line",
  ),
  fc.integer({ min: 1, max: 80_000 }).map((length) => `x-long: ${"y".repeat(length)}`),
);
const body = fc.constantFrom(
  "",
  "hello",
  "hell",
  "hello and more",
  "5\r\nhello\r\n0\r\n\r\n",
  "z".repeat(100_000),
);

const script: fc.Arbitrary<Script> = fc
  .record({
    status: statusLine,
    headers: fc.array(header, { maxLength: 5 }),
    body,
    lineEnd: fc.constantFrom("\r\n", "\r\n", "\r\n", "\n"),
    cuts: fc.array(fc.nat(400), { maxLength: 4 }),
    // Silence costs the test its idle limit each time, so it comes less often.
    ending: fc.constantFrom<Script["ending"]>(
      "end",
      "end",
      "end",
      "destroy",
      "destroy",
      "repeat",
      "hang",
    ),
  })
  .map(({ status, headers, body: content, lineEnd, cuts, ending }) => {
    const bytes = Buffer.from([status, ...headers, "", content].join(lineEnd), "latin1");
    const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b)];
    const pieces = places.map((place, index) => bytes.subarray(place, places[index + 1]));
    return { pieces, ending };
  });

async function misbehavingServer(t: TestContext) {
  const sockets = new Set<Socket>();
  let current: Script = { pieces: [], ending: "end" };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", () => void play(socket, current));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    use(next: Script) {
      current = next;
    },
  };
}

async function play(socket: Socket, { pieces, ending }: Script): Promise<void> {
  for (const piece of ending === "repeat" ? [...pieces, ...pieces] : pieces) {
    if (socket.destroyed) return;
    socket.write(piece);
    await sleep(0);
  }
  if (ending === "end") socket.end();
  if (ending === "destroy") socket.destroy();
}

async function within(work: Promise<unknown>): Promise<unknown> {
  const given = new AbortController();
  const hung = sleep(HANGS_AFTER_MS, "hung", { signal: given.signal }).catch(() => undefined);
  const ended = await Promise.race([work.catch((reason: unknown) => reason), hung]);
  given.abort();
  assert.notEqual(ended, "hung", "the client never ended");
  return ended;
}

test("any answer of a registry ends in bytes or in a Failure, in time and in little memory", async (t) => {
  const server = await misbehavingServer(t);
  const before = process.memoryUsage().arrayBuffers;
  let [whole, failed, heldMost] = [0, 0, 0];

  await fc.assert(
    fc.asyncProperty(script, fc.boolean(), async (answer, isRaw) => {
      server.use(answer);
      const client = createRegistryHttp({
        url: server.url,
        attemptsMax: 1,
        backoffMs: 1,
        idleTimeoutMs: IDLE_MS,
      });
      const accept = [200, 206];
      let received = 0;
      const take = async (chunk: Uint8Array) => {
        received += chunk.length;
      };
      try {
        const ended = await within(
          isRaw
            ? client.download({ path: "/v2/a/blobs/x", accept }, () => take)
            : client.ask({ method: "GET", path: "/v2/", accept }),
        );
        if (ended instanceof Error) {
          const isOurs = ended instanceof Failure && ended.code !== "bug";
          assert.ok(isOurs, `not a Failure of ours: ${ended.stack}`);
          failed += 1;
        } else whole += 1;
        assert.ok(received <= 400_000, `${received} bytes were handed on`);
        heldMost = Math.max(heldMost, process.memoryUsage().arrayBuffers - before);
      } finally {
        client.close();
      }
    }),
    { seed: SEED, numRuns: 600 },
  );
  assert.ok(whole > 30 && failed > 100, `${whole} whole, ${failed} failed: the fuzz tries nothing`);
  assert.ok(heldMost < HELD_BYTES_MAX, `${heldMost} bytes were held at most`);
});

test("a header that trickles in without end is given up on", async (t) => {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    const timer = setInterval(() => socket.write("HTTP/1.1 200 OK\r\nx-more: y\r\n"), IDLE_MS / 5);
    socket.on("close", () => clearInterval(timer));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const client = createRegistryHttp({ url, attemptsMax: 1, idleTimeoutMs: IDLE_MS });
  t.after(() => client.close());

  const ended = await within(
    client.download({ path: "/v2/a/blobs/x", accept: [200] }, () => async () => undefined),
  );

  assert.ok(ended instanceof Failure, String(ended));
  assert.equal(ended.code, "unavailable");
});

for (const [what, headers] of Object.entries({
  "two lengths that differ": "content-length: 5\r\ncontent-length: 6",
  "a length no number can hold": `content-length: ${"9".repeat(40)}`,
})) {
  test(`an answer with ${what} is not read as a body of known length`, async (t) => {
    const server = await misbehavingServer(t);
    const head = `HTTP/1.1 200 OK\r\n${headers}\r\n\r\nhello`;
    server.use({ pieces: [Buffer.from(head)], ending: "end" });
    const client = createRegistryHttp({ url: server.url, attemptsMax: 1, idleTimeoutMs: IDLE_MS });
    t.after(() => client.close());
    let received = 0;

    const ended = await within(
      client.download({ path: "/v2/a/blobs/x", accept: [200] }, () => async (chunk) => {
        received += chunk.length;
      }),
    );

    assert.ok(ended instanceof Failure, String(ended));
    assert.equal(received, 0);
  });
}
