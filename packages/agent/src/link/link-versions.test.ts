// Servers of the version before and of one to come, against today's link client over real sockets.

import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { type ServerFrame, type UnreadableCommand } from "@exclave/api";
import { WebSocketServer } from "ws";
import { silentLog } from "../testing/builders.ts";
import { openLink } from "./link-client.ts";

/** As the first version 1 said it. */
const WELCOME = {
  type: "welcome",
  proto: 1,
  sessionEpoch: 1,
  serverTimeMs: 0,
  upAcked: 0,
  capabilities: [],
  limits: { logCreditBytes: 1_000, frameBytes: 1_000 },
  pingMs: 10_000,
  reconnectSpreadMs: 0,
  logs: [],
};
const PING = { type: "ping", id: 7 };

test("a server of before, whose messages have none of the later fields, is understood (L-7.3)", async (t) => {
  const goaway = { type: "goaway", code: "superseded", because: "a newer one", retryAfterMs: 0 };
  const heard = await hearing(t, [WELCOME, goaway, PING]);

  assert.deepEqual(
    heard.map(({ type }) => type),
    ["welcome", "goaway", "ping"],
  );
  const said = heard[1];
  assert.deepEqual(said?.type === "goaway" && said.permanent, false);
});

test("fields and capabilities of a server to come are ignored (L-7.1)", async (t) => {
  const welcome = { ...WELCOME, capabilities: ["of-the-future"], weather: "fine" };
  const heard = await hearing(t, [welcome, { ...PING, later: true }]);

  assert.deepEqual(
    heard.map(({ type }) => type),
    ["welcome", "ping"],
  );
  assert.ok(!("weather" in heard[0]!));
});

test("a type of frame to come is passed over, and the connection goes on (L-7.5)", async (t) => {
  const heard = await hearing(t, [WELCOME, { type: "surprise" }, PING]);

  assert.deepEqual(
    heard.map(({ type }) => type),
    ["welcome", "ping"],
  );
});

test("a command to come is handed on as one that cannot be read, to be refused by an event (L-2.5)", async (t) => {
  const body = { type: "job_dance", job: "jaaaaaaaaaaaaaaaa", attempt: 2 };
  const heard = await hearing(t, [WELCOME, { type: "command", seq: 1, body }, PING]);

  const [, command] = heard;
  assert.deepEqual(command?.type === "unreadable_command" && [command.seq, command.about], [
    1,
    { job: "jaaaaaaaaaaaaaaaa", attempt: 2 },
  ]);
});

/** What the link hands on of these frames, of which the last is a ping. */
async function hearing(t: TestContext, frames: readonly object[]) {
  const sockets = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(sockets, "listening");
  sockets.on("connection", (socket) => {
    for (const frame of frames) socket.send(JSON.stringify(frame));
  });
  const heard: (ServerFrame | UnreadableCommand)[] = [];
  const all = Promise.withResolvers<void>();
  const link = openLink({
    serverUrl: `http://127.0.0.1:${(sockets.address() as AddressInfo).port}`,
    onFrame(frame) {
      heard.push(frame);
      if (frame.type === "ping") all.resolve();
    },
    onDisconnected: async () => undefined,
    random: () => 0,
    log: silentLog,
  });
  t.after(async () => {
    await link.close();
    sockets.close();
  });
  await all.promise;
  return heard;
}
