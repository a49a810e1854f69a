import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { choosePort, isPortFree } from "./kept-port.ts";

test("a kept port is free, and below what systems hand out to outgoing connections", async () => {
  const port = await choosePort();

  assert.ok(port < 32_768, String(port));
  assert.ok(await isPortFree(port));
});

test("a port somebody listens on is not free", async (t) => {
  const server = createServer().listen(await choosePort(), "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const address = server.address();

  assert.equal(await isPortFree(typeof address === "object" ? (address?.port ?? 0) : 0), false);
});
