// The agent's link over TLS: through a proxy, and to nobody but the server of the pinned authority.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createDial } from "@exclave/agent/simulation";
import { tlsServer, tunnel } from "./tls-world.ts";

test("the link goes through the proxy of the machine's network", async (t) => {
  const server = await tlsServer(t, { publicUrl: "https://exclave.test" });
  const { proxy, asked } = await tunnel(t, server.server.listening);
  const ca = await readFile(join(server.data, "keys/ca.crt"), "utf8");

  const socket = createDial(() => ({ ca, proxy }))("wss://exclave.test/v1/link");
  t.after(() => socket.terminate());
  const [first] = (await once(socket, "message")) as [Buffer];

  assert.equal((JSON.parse(first.toString()) as { type: string }).type, "challenge");
  assert.deepEqual(asked, ["exclave.test:443"]);
});

test("a server of another authority is not spoken to", async (t) => {
  const [server, other] = [await tlsServer(t), await tlsServer(t)];
  const ca = await readFile(join(other.data, "keys/ca.crt"), "utf8");

  const socket = createDial(() => ({ ca }))(`${server.url.replace("https:", "wss:")}/v1/link`);
  t.after(() => socket.terminate());
  const [reason] = (await once(socket, "close").catch((cause: unknown) => [cause])) as [Error];

  assert.match(String(reason), /certificate|issuer/);
});

test("a host that NO_PROXY names is dialled directly", async (t) => {
  const server = await tlsServer(t, { publicUrl: "https://exclave.test" });
  const { proxy, asked } = await tunnel(t, server.server.listening);
  const ca = await readFile(join(server.data, "keys/ca.crt"), "utf8");

  const direct = { ...proxy, NO_PROXY: "other.test,exclave.test" };
  const socket = createDial(() => ({ ca, proxy: direct }))("wss://exclave.test:1/v1/link");
  t.after(() => socket.terminate());
  await assert.rejects(once(socket, "open"), /ENOTFOUND|EAI_AGAIN|ECONNREFUSED/);

  assert.deepEqual(asked, [], "the proxy heard nothing of it");
});
