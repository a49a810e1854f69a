// What a peer of one of our HTTP listeners may take: header bytes, time, connections. Every listener
// of the product is made here, so that none is without limits.

import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import type { Socket } from "node:net";
import type { SecureContextOptions } from "node:tls";
import { guardBody } from "./guard-body.ts";
import { createAddressCount } from "./remote-address.ts";

export interface ListenLimits {
  /** Request line and headers together. Node answers 431 above it. */
  readonly headerBytesMax: number;
  /** From the connection's first moment, or the request before, until the headers are whole. */
  readonly headersMs: number;
  /** A connection between two requests. */
  readonly keepAliveMs: number;
  /** A request under way on which neither side moves a byte. */
  readonly idleMs: number;
  /** How long a request's body may bring less than `bodyBytesMin`. There is no limit to the whole. */
  readonly bodyWindowMs: number;
  readonly bodyBytesMin: number;
  readonly connectionsMax: number;
  /** For one remote address (one /64 of IPv6). Loopback has none: a proxy there speaks for everyone. */
  readonly connectionsPerAddressMax: number;
}

export const LISTEN_LIMITS: ListenLimits = {
  headerBytesMax: 16 * 1024,
  headersMs: 15_000,
  keepAliveMs: 60_000,
  idleMs: 10 * 60_000,
  bodyWindowMs: 60_000,
  bodyBytesMin: 16 * 1024,
  connectionsMax: 16_384,
  connectionsPerAddressMax: 1_024,
};

/**
 * A token for an install's own registry names every repository a sync writes to and mounts from: some
 * hundred, and each costs its name.
 */
export const REPOSITORY_TOKEN_HEADER_BYTES_MAX = 128 * 1024;

/** What a listener shows of itself, and by whom the certificates of its peers have to be, where they have one. */
export type ListenTls = Pick<SecureContextOptions, "cert" | "key" | "ca" | "minVersion">;

/** Said again with every new certificate: Node would fall back to its own default. */
export const LISTEN_TLS_VERSION = "TLSv1.3";

export function createLimitedServer(
  handle: (request: IncomingMessage, response: ServerResponse) => void,
  limits: ListenLimits = LISTEN_LIMITS,
  tls?: ListenTls,
): Server | TlsServer {
  const listener: RequestListener = (request, response) => {
    guardBody(request, response, limits);
    handle(request, response);
  };
  const options = {
    // An upload takes as long as it takes; its pace is guarded instead. Zero would turn off the limit
    // on headers as well, unless that is set on its own.
    requestTimeout: 0,
    headersTimeout: limits.headersMs,
    connectionsCheckingInterval: Math.min(5_000, limits.headersMs),
    keepAliveTimeout: limits.keepAliveMs,
    maxHeaderSize: limits.headerBytesMax,
  };
  const server = tls
    ? tlsServer({ ...options, ...tls }, limits, listener)
    : createServer(options, listener);
  server.maxHeadersCount = 100;
  server.setTimeout(limits.idleMs);
  server.maxConnections = limits.connectionsMax;
  capPerAddress(server, limits.connectionsPerAddressMax);
  return server;
}

/** A peer may show a certificate; whether it has to is decided where it is known what it wants. */
function tlsServer(
  options: Parameters<typeof createTlsServer>[0],
  limits: ListenLimits,
  listener: RequestListener,
): TlsServer {
  return createTlsServer(
    {
      ...options,
      minVersion: LISTEN_TLS_VERSION,
      requestCert: true,
      rejectUnauthorized: false,
      handshakeTimeout: limits.headersMs,
    },
    listener,
  );
}

function capPerAddress(server: Server | TlsServer, connectionsMax: number): void {
  const connections = createAddressCount(connectionsMax);
  server.on("connection", (socket: Socket) => {
    const { remoteAddress } = socket;
    if (remoteAddress === undefined) return;
    if (!connections.take(remoteAddress)) {
      socket.destroy();
      return;
    }
    socket.once("close", () => connections.give(remoteAddress));
  });
}
