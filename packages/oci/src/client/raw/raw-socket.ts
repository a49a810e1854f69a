// A socket, plain or TLS, that reads into one buffer of its own, again and again.

import net from "node:net";
import tls from "node:tls";
import { Failure } from "@exclave/core";
import { CONNECT_TIMEOUT_MS, limitConnecting } from "../connect-timeout.ts";
import { type SocketRoute, socketTo } from "../socket-route.ts";
import { trustIn } from "../tls-trust.ts";

export interface RawSocket {
  readonly socket: net.Socket;
  /** Why it can no longer be used, once that is so. */
  readonly broken: () => unknown;
  /** Resolves with the next `wake`, or when the socket has ended. */
  readonly changed: () => Promise<void>;
  readonly wake: () => void;
}

export interface RawSocketOptions {
  readonly ca?: string | Buffer | undefined;
  readonly route?: SocketRoute | undefined;
  readonly idleTimeoutMs: number;
  readonly connectTimeoutMs?: number;
}

const PLAIN_BUFFER_BYTES = 1024 * 1024;
const TLS_BUFFER_BYTES = 64 * 1024;

/** `receive` is called with the socket's own buffer; false stops the socket from filling that again. */
export function openSocket(
  url: URL,
  { ca, route, connectTimeoutMs = CONNECT_TIMEOUT_MS }: RawSocketOptions,
  receive: (chunk: Uint8Array) => boolean,
): RawSocket {
  const isSecure = url.protocol === "https:";
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const port = Number(url.port || (isSecure ? 443 : 80));
  const onread = {
    buffer: Buffer.allocUnsafeSlow(isSecure ? TLS_BUFFER_BYTES : PLAIN_BUFFER_BYTES),
    callback: (count: number, buffer: Uint8Array) => receive(buffer.subarray(0, count)),
  };
  const path = socketTo(url, route);
  const where = path === undefined ? { host, port } : { path };
  const socket = isSecure
    ? tls.connect({
        onread,
        ...where,
        ...(net.isIP(host) === 0 ? { servername: host } : {}),
        ...trustIn(ca),
      } as unknown as tls.ConnectionOptions)
    : net.connect({ ...where, onread } as net.NetConnectOpts);
  limitConnecting(socket, url, connectTimeoutMs);
  socket.setNoDelay(true);
  let broken: unknown;
  let wake: () => void = () => undefined;
  socket.on("error", (reason) => {
    broken ??= reason;
  });
  socket.on("close", () => {
    broken ??= new Failure("unavailable", `${url.host} closed the connection`);
    wake();
  });
  return { socket, broken: () => broken, changed, wake: () => wake() };

  function changed(): Promise<void> {
    return new Promise((resolve) => {
      wake = resolve;
    });
  }
}
