// Blobs over real connections, above all over those that break.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { digestOf } from "../content/digest.ts";
import { type OpenRegistry, openRegistry } from "./testing/open-registry.ts";

const BYTES = randomBytes(12_000_000);

/** A PATCH of all the bytes; those given are with the system once this returns. */
async function startPatch(
  t: TestContext,
  { url }: OpenRegistry,
  location: string,
  bytes: Uint8Array,
): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  t.after(() => socket.destroy());
  socket.on("error", () => undefined);
  await once(socket, "connect");
  socket.write(`PATCH ${location} HTTP/1.1\r\nhost: r\r\ncontent-length: ${BYTES.length}\r\n\r\n`);
  await new Promise((resolve) => socket.write(bytes, resolve));
  return socket;
}

async function askPlace({ send }: OpenRegistry, location: string): Promise<number> {
  const response = await send("GET", location);
  assert.equal(response.status, 204);
  const last = Number(response.headers.get("range")?.split("-")[1]);
  return last === 0 ? 0 : last + 1;
}

/** Sends what is missing and ends the upload. */
async function goOn({ send }: OpenRegistry, location: string, from: number): Promise<void> {
  const headers = { "content-range": `${from}-${BYTES.length - 1}` };
  const patched = await send("PATCH", location, { headers, body: BYTES.subarray(from) });
  assert.equal(patched.status, 202, `from ${from}: ${await patched.text()}`);
  assert.equal((await send("PUT", `${location}?digest=${digestOf(BYTES)}`)).status, 201);
}

const BREAKS: [string, (socket: Socket) => void][] = [
  ["an end", (socket) => socket.destroy()],
  ["a reset", (socket) => socket.resetAndDestroy()],
];

for (const [name, breakOff] of BREAKS) {
  test(`an upload that broke off with ${name} resumes where the registry says`, async (t) => {
    const registry = await openRegistry(t);
    for (let round = 0; round < 8; round++) {
      const location = await registry.begin("a");
      const socket = await startPatch(t, registry, location, BYTES.subarray(0, 11_000_000));

      breakOff(socket);
      const from = await askPlace(registry, location);

      assert.ok(from <= 11_000_000);
      await goOn(registry, location, from);
    }
  });
}

describe("a connection whose end never comes", () => {
  test("does not keep its client from going on over another one", async (t) => {
    const registry = await openRegistry(t);
    const location = await registry.begin("a");
    await startPatch(t, registry, location, BYTES.subarray(0, 7_500_000));

    const from = await askPlace(registry, location);

    assert.equal(from, 7_500_000);
    await goOn(registry, location, from);
  });

  test("is closed once its upload is cancelled over another one", async (t) => {
    const registry = await openRegistry(t);
    const location = await registry.begin("a");
    const socket = await startPatch(t, registry, location, BYTES.subarray(0, 100));
    await sleep(50);

    const closed = once(socket, "close");
    assert.equal((await registry.send("DELETE", location)).status, 204);

    await closed;
    assert.equal((await registry.send("GET", location)).status, 404);
  });
});

test("asking how far an upload is does not break it off", async (t) => {
  const registry = await openRegistry(t);
  const location = await registry.begin("a");
  const socket = await startPatch(t, registry, location, BYTES.subarray(0, 6_000_000));

  assert.equal(await askPlace(registry, location), 6_000_000);

  const answered = once(socket, "data");
  socket.write(BYTES.subarray(6_000_000));
  assert.match(String(await answered), /^HTTP\/1.1 202 /);
  assert.equal((await registry.send("PUT", `${location}?digest=${digestOf(BYTES)}`)).status, 201);
});

test("a HEAD knows no ranges", async (t) => {
  const { push, send } = await openRegistry(t);
  const digest = await push("a", "0123456789");

  for (const range of ["bytes=2-4", "bytes=20-"]) {
    const response = await send("HEAD", `/v2/a/blobs/${digest}`, { headers: { range } });

    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-length"), "10");
    assert.equal(response.headers.get("content-range"), null);
  }
});
