// The least that many agents could be connected to: ws over mutual TLS, every message sent back.
// node bare-server.ts FILE, which holds { cert, key, ca }; prints its port.

import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { WebSocketServer } from "ws";

const shown = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as Record<string, string>;
const server = createServer({
  ...shown,
  minVersion: "TLSv1.3",
  requestCert: true,
  rejectUnauthorized: true,
});
const sockets = new WebSocketServer({ server, perMessageDeflate: false });
sockets.on("connection", (socket) => {
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});
