// A body that trickles in holds a connection, and whatever its handler holds, for as long as the peer
// likes. It may take hours in all, but each minute has to bring some of it.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { ListenLimits } from "./listen-limits.ts";

export function guardBody(
  request: IncomingMessage,
  response: ServerResponse,
  { bodyWindowMs, bodyBytesMin }: Pick<ListenLimits, "bodyWindowMs" | "bodyBytesMin">,
): void {
  if (!hasBody(request)) return;
  const { socket } = request;
  let read = socket.bytesRead;
  const timer = setInterval(() => {
    if (request.complete || request.destroyed) return stop();
    const got = socket.bytesRead - read;
    read = socket.bytesRead;
    // A body that lies here unread waits for us, for a disk or its turn, and not for its sender.
    if (got >= bodyBytesMin || request.readableLength > 0) return;
    stop();
    if (!response.headersSent) {
      response.writeHead(408, { connection: "close" }).end();
    }
    socket.destroySoon();
  }, bodyWindowMs);
  timer.unref();
  request.once("close", stop);
  request.once("end", stop);

  function stop(): void {
    clearInterval(timer);
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}
