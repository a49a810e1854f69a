import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { describe, type TestContext, test } from "node:test";
import { createRawDownloads } from "./raw-download.ts";

/** A server that is told, per connection and request, what to write. */
async function world(t: TestContext, answer: (socket: Socket, connection: number) => void) {
  let connections = 0;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    const mine = ++connections;
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("data", () => answer(socket, mine));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const downloads = createRawDownloads({ idleTimeoutMs: 5_000 });
  t.after(() => {
    downloads.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/blob`);
  const read = async (headers = {}) => {
    const reply = await downloads.get(url, headers, undefined);
    const chunks: Buffer[] = [];
    await reply.pour(async (chunk) => {
      chunks.push(Buffer.from(chunk));
    });
    return Buffer.concat(chunks).toString();
  };
  return { downloads, url, read, connections: () => connections };
}

describe("a raw download", () => {
  test("uses its connection again", async (t) => {
    const { read, connections } = await world(t, (socket) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    });

    assert.equal(await read(), "hello");
    assert.equal(await read(), "hello");

    assert.equal(connections(), 1);
  });

  test("makes a new one when the other side closed it meanwhile, and nobody notices", async (t) => {
    const { read, connections } = await world(t, (socket, connection) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx");
      if (connection === 1) socket.end();
    });

    await read();
    assert.equal(await read(), "x");

    assert.equal(connections(), 2);
  });

  test("does not keep one that the other side wants closed", async (t) => {
    const { read, connections } = await world(t, (socket) => {
      socket.write("HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 1\r\n\r\nx");
    });

    await read();
    await read();

    assert.equal(connections(), 2);
  });

  test("reads a header that comes in pieces, and a body right behind it", async (t) => {
    const pieces = ["HTTP/1.1 200 O", "K\r\ncontent-le", "ngth: 6\r\n\r", "\nab", "cd", "ef"];
    const { read } = await world(t, (socket) => {
      const next = () => {
        const piece = pieces.shift();
        if (piece !== undefined) socket.write(piece, () => setImmediate(next));
      };
      next();
    });

    assert.equal(await read(), "abcdef");
  });

  test("fails when the body ends early, and when it is longer than announced", async (t) => {
    const { read } = await world(t, (socket, connection) => {
      if (connection === 1) socket.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort");
      else socket.write("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nlonger");
    });

    await assert.rejects(read(), /closed the connection/);
    await assert.rejects(read(), /more than it announced/);
  });

  test("fails on a header without end, and on something that is not HTTP", async (t) => {
    const { read } = await world(t, (socket, connection) => {
      if (connection === 1) socket.write(Buffer.alloc(100_000, "x"));
      else socket.write("SSH-2.0-OpenSSH_9.2\r\n\r\n");
    });

    await assert.rejects(read(), /endless header/);
    await assert.rejects(read(), /does not speak HTTP/);
  });

  test("leaves answers without a length to others", async (t) => {
    const { downloads, url } = await world(t, (socket) => {
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n");
    });

    const answer = await downloads.get(url, {}, undefined);
    answer.drop();

    assert.equal(answer.length, undefined);
  });

  test("lets no header break out of its line", async (t) => {
    const { read } = await world(t, () => undefined);

    await assert.rejects(read({ authorization: "a\r\nhost: evil" }), /line break/);
  });

  test("reads everything into one buffer, and nothing while its taker is busy", async (t) => {
    const size = 16 * 1024 * 1024;
    let written = 0;
    const { downloads, url } = await world(t, (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`);
      socket.write(Buffer.alloc(size, 1), () => {
        written = size;
      });
    });
    const buffers = new Set<ArrayBufferLike>();
    let sum = 0;
    let isBusy = false;

    const answer = await downloads.get(url, {}, undefined);
    await answer.pour(async (chunk) => {
      assert.equal(isBusy, false);
      isBusy = true;
      buffers.add(chunk.buffer);
      const before = chunk[0];
      await new Promise((resolve) => setImmediate(resolve));
      assert.equal(chunk[0], before);
      sum += chunk.length;
      isBusy = false;
    });

    assert.equal(sum, size);
    assert.equal(written, size);
    assert.equal(buffers.size, 1);
  });
});
