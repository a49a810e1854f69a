import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { createSystemTimers, DRAINING, STABLE_MS } from "@exclave/api";
import { WebSocketServer } from "ws";
import { silentLog } from "../testing/builders.ts";
import {
  describeLinkClient,
  type LinkPeer,
  type LinkUnderTest,
} from "../testing/link-client-contract.ts";
import { startLinkServer } from "../testing/link-server.ts";
import { linkUrl, openLink, retryAfterMsOf } from "./link-client.ts";

test("dials the link's path, over TLS where the server has it", () => {
  assert.equal(linkUrl("http://127.0.0.1:80"), "ws://127.0.0.1/v1/link");
  assert.equal(linkUrl("https://exclave.example.com"), "wss://exclave.example.com/v1/link");
});

test("comes back after a cut, and only when the loss was taken in", async (t) => {
  const server = await startLinkServer(t);
  const heard: string[] = [];
  const loss = Promise.withResolvers<void>();
  const tell = Promise.withResolvers<void>();
  let challenges = Promise.withResolvers<void>();
  const link = openLink({
    serverUrl: server.url,
    onFrame(frame) {
      heard.push(frame.type);
      challenges.resolve();
    },
    async onDisconnected() {
      heard.push("lost");
      loss.resolve();
      await tell.promise;
    },
    random: () => 0,
    log: silentLog,
  });
  t.after(() => link.close());
  await challenges.promise;
  challenges = Promise.withResolvers();

  link.drop("a test wants it");
  await loss.promise;
  const before = link.session;
  assert.deepEqual(heard, ["challenge", "lost"]);
  tell.resolve();
  await challenges.promise;

  assert.deepEqual(heard, ["challenge", "lost", "challenge"]);
  assert.equal(link.session, before + 1);
});

test("a server that is not there is no error, and closing ends the dialling", async () => {
  const lost = Promise.withResolvers<void>();
  const link = openLink({
    serverUrl: "http://127.0.0.1:1",
    onFrame() {},
    onDisconnected: async () => lost.resolve(),
    random: () => 0.99,
    log: silentLog,
  });

  await lost.promise;
  link.send({ type: "pong", id: 1 });
  await link.close();
});

test("a server that is busy says when to come back, and is not dialled before (L-5.4)", async (t) => {
  const server = createServer((_, response) => response.end());
  server.on("upgrade", (_, socket) => {
    socket.end("HTTP/1.1 503 Service Unavailable\r\nretry-after: 7\r\nconnection: close\r\n\r\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;

  assert.equal(await firstPauseMs(t, port), 7_000);
});

test("only seconds count as a time to come back, and ten minutes at most", () => {
  const waits = ["7", undefined, "soon", "-1", "99999999"].map(retryAfterMsOf);
  assert.deepEqual(waits, [7_000, 0, 0, 0, 600_000]);
});

test("an agent that is sent away alone does not wait for the herd", async (t) => {
  const sockets = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  t.after(() => sockets.close());
  await once(sockets, "listening");
  sockets.on("connection", (socket) => {
    const goaway = { type: "goaway", code: "moving", because: "old", retryAfterMs: 0, spreadMs: 0 };
    socket.send(JSON.stringify({ ...WELCOME, reconnectSpreadMs: 200_000 }));
    socket.send(JSON.stringify(goaway));
    socket.close();
  });
  const { port } = sockets.address() as AddressInfo;

  assert.equal(await firstPauseMs(t, port), 0);
});

test("leaves a server that stops when its slot has come, and dials again without a pause (L-6.5)", async (t) => {
  const said = { type: "drain", afterMs: 250, because: "the server is stopping" };
  const { pauses, slots } = await drainedAgain(t, 2, said);

  assert.deepEqual(slots, [250, 250]);
  assert.deepEqual(pauses, [0, 0]);
});

test("servers that stop again and again are dialled with backoff after three in a row (L-6.6)", async (t) => {
  const said = { type: "goaway", code: DRAINING, because: "stops", retryAfterMs: 0, spreadMs: 0 };
  const { pauses } = await drainedAgain(t, 5, said);

  assert.deepEqual(pauses.slice(0, 3), [0, 0, 0]);
  assert.ok(
    pauses.slice(3).every((ms) => ms > 0),
    pauses.join(" "),
  );
});

/** Pauses before the dials after each of so many connections that were short and ended so, with the longest roll. */
async function drainedAgain(t: TestContext, times: number, said: object) {
  const sockets = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  t.after(() => sockets.close());
  await once(sockets, "listening");
  sockets.on("connection", (socket) => {
    socket.send(JSON.stringify({ ...WELCOME, reconnectSpreadMs: 200_000 }));
    socket.send(JSON.stringify(said));
    if ("code" in said) socket.close();
  });
  const pauses: number[] = [];
  const slots: number[] = [];
  const all = Promise.withResolvers<void>();
  const system = createSystemTimers();
  const link = openLink({
    serverUrl: `http://127.0.0.1:${(sockets.address() as AddressInfo).port}`,
    onFrame() {},
    onDisconnected: async () => undefined,
    random: () => 0.999,
    log: silentLog,
    elapsedMs: () => 0,
    timers: {
      ...system,
      after(ms, work) {
        if (ms >= WELCOME.pingMs) return system.after(ms, work);
        slots.push(ms);
        return system.after(0, work);
      },
      async sleep(ms) {
        pauses.push(ms);
        if (pauses.length === times) all.resolve();
      },
    },
  });
  t.after(() => link.close());
  await all.promise;
  return { pauses: pauses.slice(0, times), slots: slots.slice(0, times) };
}

/** How long a link waits before its second dial, with the longest roll, after a session that held. */
async function firstPauseMs(t: TestContext, port: number): Promise<number> {
  const slept = Promise.withResolvers<number>();
  const system = createSystemTimers();
  let elapsed = 0;
  const link = openLink({
    serverUrl: `http://127.0.0.1:${port}`,
    onFrame() {},
    onDisconnected: async () => undefined,
    random: () => 0.999,
    log: silentLog,
    elapsedMs: () => (elapsed += STABLE_MS),
    timers: {
      ...system,
      sleep(ms, signal) {
        slept.resolve(ms);
        return system.sleep(60_000, signal);
      },
    },
  });
  t.after(() => link.close());
  return slept.promise;
}

describeLinkClient("a link over the network", overNetwork);

const WELCOME = {
  type: "welcome",
  proto: 1,
  sessionEpoch: 1,
  serverTimeMs: 0,
  upAcked: 0,
  capabilities: [],
  limits: { logCreditBytes: 1, frameBytes: 1 },
  pingMs: 10_000,
  logs: [],
};

async function overNetwork(t: TestContext): Promise<LinkUnderTest> {
  const sockets = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  const peers: LinkPeer[] = [];
  sockets.on("connection", (socket) => {
    const heard: string[] = [];
    socket.on("message", (data: Buffer) => heard.push(data.toString("utf8")));
    peers.push({
      heard,
      get isClosed() {
        return socket.readyState !== socket.OPEN;
      },
      say: (text) => socket.send(text),
      cut: () => socket.terminate(),
    });
  });
  await once(sockets, "listening");
  t.after(() => {
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
  });
  const { port } = sockets.address() as AddressInfo;
  return {
    options: { serverUrl: `http://127.0.0.1:${port}` },
    peers,
    async until(isSo, what) {
      for (let turns = 0; !isSo(); turns++) {
        assert.ok(turns < 3_000, `waited in vain until ${what}`);
        await sleep(5);
      }
    },
  };
}
