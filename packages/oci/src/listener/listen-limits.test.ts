import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, type Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { createLimitedServer, LISTEN_LIMITS, type ListenLimits } from "./listen-limits.ts";

async function listening(t: TestContext, limits: Partial<ListenLimits>): Promise<number> {
  const server = createLimitedServer(
    (request, response) => {
      buffer(request).then(
        ({ length }) => response.end(`${length} bytes`),
        () => undefined,
      );
    },
    { ...LISTEN_LIMITS, ...limits },
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

function open(t: TestContext, port: number): Socket {
  const socket = connect(port, "127.0.0.1").on("error", () => undefined);
  t.after(() => socket.destroy());
  return socket;
}

/** Everything the server said until it closed the connection. The test's time limit ends the wait. */
async function untilClosed(socket: Socket): Promise<string> {
  return buffer(socket).then(String, () => "");
}

test("a peer that says nothing, or its headers slowly, is cut off", async (t) => {
  const port = await listening(t, { headersMs: 200 });
  const silent = open(t, port);
  const slow = open(t, port);
  slow.write("GET / HTTP/1.1\r\nhost: a\r\n");
  const drip = setInterval(() => slow.write("x: y\r\n"), 20);
  t.after(() => clearInterval(drip));

  const answers = await Promise.all([untilClosed(silent), untilClosed(slow)]);

  for (const answer of answers) assert.match(answer, /^(HTTP\/1\.1 408|$)/);
});

test("headers over the limit are refused", async (t) => {
  // Below what Node allows by itself: the limit is ours.
  const port = await listening(t, { headerBytesMax: 4 * 1024 });
  const socket = open(t, port);
  socket.write(
    `GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx: ${"y".repeat(5 * 1024)}\r\n\r\n`,
  );

  assert.match(await untilClosed(socket), /^HTTP\/1\.1 431/);
});

test("a body that trickles is cut off, one that is slow and steady arrives whole", async (t) => {
  const port = await listening(t, { bodyWindowMs: 300, bodyBytesMin: 4 });
  const trickle = open(t, port);
  trickle.write("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nx");
  const cutOff = untilClosed(trickle);
  const steady = open(t, port);
  steady.write("PUT / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 1500\r\n\r\n");
  const answer = untilClosed(steady);
  // Five windows long, and far above the least pace in each.
  for (let sent = 0; sent < 1_500; sent += 10) {
    steady.write("0123456789");
    await sleep(10);
  }

  assert.match(await cutOff, /^HTTP\/1\.1 408/);
  assert.match(await answer, /1500 bytes$/);
});

test("connections over the limit are dropped, and there is room again when one ends", async (t) => {
  const port = await listening(t, { connectionsMax: 2, headersMs: 60_000 });
  const held = [open(t, port), open(t, port)];
  await Promise.all(held.map((socket) => once(socket, "connect")));

  assert.equal(await untilClosed(open(t, port)), "");

  held[0]?.destroy();
  for (;;) {
    const again = open(t, port);
    again.write("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    if ((await untilClosed(again)).endsWith("0 bytes")) break;
  }
});
