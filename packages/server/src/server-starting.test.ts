import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { LINK_PATH, LINK_PROTOCOL } from "@exclave/api";
import { pino } from "pino";
import { WebSocket } from "ws";
import { startServer } from "./server.ts";
import { openKeyDirectory } from "./signer/key-directory.ts";
import type { Signer } from "./signer/signer.ts";
import { temporaryDirectory } from "./testing/temporary-directory.ts";
import { until } from "./testing/test-server.ts";

test("an agent that dials a server which is not ready is told when to come back", async (t) => {
  const port = await freePort();
  const keysWanted = Promise.withResolvers<void>();
  const isTime = Promise.withResolvers<void>();
  const starting = startServer({
    data: join(await temporaryDirectory(t), "server"),
    host: "127.0.0.1",
    port,
    log: pino({ level: "silent" }),
    // It listens, and the trust document waits for its keys.
    async openSigner(directory): Promise<Signer> {
      const signer = await openKeyDirectory(directory);
      return {
        ...signer,
        async keys() {
          keysWanted.resolve();
          await isTime.promise;
          return signer.keys();
        },
      };
    },
  });
  await keysWanted.promise;

  const early = await dial(port);

  isTime.resolve();
  const server = await starting;
  t.after(() => server.close());
  assert.deepEqual(early, { status: 503, retryAfter: "1" });
  await until(
    () => dial(port),
    (answer) => answer === "open",
    "it is let in",
  );
});

type Answer = "open" | { readonly status: number; readonly retryAfter: string };

function dial(port: number): Promise<Answer> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${LINK_PATH}`, LINK_PROTOCOL);
  return new Promise((resolve, reject) => {
    socket.on("open", () => {
      socket.terminate();
      resolve("open");
    });
    socket.on("unexpected-response", (_, { statusCode = 0, headers }) => {
      socket.terminate();
      resolve({ status: statusCode, retryAfter: String(headers["retry-after"]) });
    });
    socket.on("error", reject);
  });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
