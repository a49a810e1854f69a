import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { startFaultProxy } from "./fault-proxy.ts";
import { createDice, type Fate, rollFate, WELL } from "./faults.ts";

test("what passes arrives whole and in order, however slow and however sliced", async (t) => {
  const fate = { ...WELL, latencyMs: 1, jitterMs: 3, sliceBytes: 700, bytesPerSecond: 5_000_000 };
  const { client, bytes } = await through(t, fate);
  const sent = randomBytes(200_000);

  client.end(sent);
  await once(client, "close");

  assert.equal(sha256(await bytes), sha256(sent));
});

test("a cut is seen by both sides", async (t) => {
  const { client, server } = await through(t, { ...WELL, end: { kind: "cut", afterMs: 20 } });
  await Promise.all([once(client, "close"), server.then((socket) => closed(socket))]);
  assert.ok(client.destroyed);
});

test("a reset is an error on the other side", async (t) => {
  const { client } = await through(t, { ...WELL, end: { kind: "reset", afterMs: 20 } });
  const [reason] = (await once(client, "error")) as [NodeJS.ErrnoException];
  assert.equal(reason.code, "ECONNRESET");
});

test("in a hole nothing passes and nobody is told, until it is healed by a cut", async (t) => {
  const end = { kind: "blackhole", afterMs: 1, forMs: 60_000 } as const;
  const { client, server, proxy } = await through(t, { ...WELL, end });
  const socket = await server;
  const heard: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => heard.push(chunk));
  while (!proxy.ends.has("blackhole")) await new Promise((resolve) => setTimeout(resolve, 2));

  client.write("hello");
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual([heard.length, client.destroyed, socket.destroyed], [0, false, false]);
  proxy.heal();
  await Promise.all([closed(client), closed(socket)]);
});

test("the same seed rolls the same fates, and all kinds of them", () => {
  const roll = (seed: number) => {
    const dice = createDice(seed);
    return Array.from({ length: 200 }, () =>
      rollFate(dice, { lifeMsMax: 9_000, blackholeMsMax: 5_000 }),
    );
  };

  assert.deepEqual(roll(7), roll(7));
  assert.notDeepEqual(roll(7), roll(8));
  assert.deepEqual([...new Set(roll(7).map(({ end }) => end.kind))].toSorted(), [
    "blackhole",
    "cut",
    "none",
    "reset",
  ]);
});

/** A client of a proxy of that fate, and what came out at the other end. */
async function through(t: TestContext, fate: Fate) {
  const accepted = Promise.withResolvers<Socket>();
  const all = Promise.withResolvers<Buffer>();
  const target = createServer((socket) => {
    const chunks: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.on("end", () => all.resolve(Buffer.concat(chunks)));
    socket.on("error", () => undefined);
    accepted.resolve(socket);
  });
  target.listen(0, "127.0.0.1");
  await once(target, "listening");
  const { port: targetPort } = target.address() as AddressInfo;
  const proxy = await startFaultProxy({ targetPort, fateOf: () => fate, dice: createDice(1) });
  const client = connect(proxy.port, "127.0.0.1");
  client.on("error", () => undefined);
  await once(client, "connect");
  t.after(async () => {
    client.destroy();
    await proxy.close();
    target.close();
  });
  return { client, server: accepted.promise, bytes: all.promise, proxy };
}

async function closed(socket: Socket): Promise<void> {
  if (!socket.destroyed) await once(socket, "close");
}

function sha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}
