// A host that does not take a connection is given up on long before one that is slow to answer.

import type { Socket } from "node:net";
import { Failure } from "@exclave/core";

export const CONNECT_TIMEOUT_MS = 10_000;

/** Ends a socket that is not connected in time, the handshake of TLS included. */
export function limitConnecting(socket: Socket, url: URL, timeoutMs: number): void {
  // A kept-alive connection is past all that.
  if (!socket.connecting) return;
  const timer = setTimeout(() => {
    const message = `cannot reach the registry at ${url.host}: no connection after ${timeoutMs / 1_000} s`;
    socket.destroy(new Failure("unavailable", message));
  }, timeoutMs);
  socket.once(url.protocol === "https:" ? "secureConnect" : "connect", () => clearTimeout(timer));
  socket.once("close", () => clearTimeout(timer));
}
