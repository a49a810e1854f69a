import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocketServer } from "ws";
import { silentLog } from "../testing/builders.ts";
import {
  describeLinkClient,
  type LinkPeer,
  type LinkUnderTest,
} from "../testing/link-client-contract.ts";
import { startLinkServer } from "../testing/link-server.ts";
import { linkUrl, openLink } from "./link-client.ts";

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

describeLinkClient("a link over the network", overNetwork);

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
