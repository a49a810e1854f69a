// The embedded registry with an HTTP server of its own.

import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { listenOnSocket } from "@exclave/machine/engine";
import {
  createLimitedServer,
  LISTEN_LIMITS,
  type ListenLimits,
  REPOSITORY_TOKEN_HEADER_BYTES_MAX,
} from "../listener/listen-limits.ts";
import { createRegistry, type RegistryOptions } from "./registry.ts";

export interface RunningRegistry {
  readonly url: string;
  close(): Promise<void>;
}

export async function serveRegistry(
  options: RegistryOptions & {
    readonly host: string;
    readonly port: number;
    /** A unix socket to listen on instead, for whoever can see it. */
    readonly socket?: string | undefined;
    readonly limits?: Partial<ListenLimits>;
  },
): Promise<RunningRegistry> {
  const registry = createRegistry(options);
  const server = createLimitedServer(
    (request, response) => void registry.handle(request, response),
    {
      ...LISTEN_LIMITS,
      ...(options.auth.kind === "token" && { headerBytesMax: REPOSITORY_TOKEN_HEADER_BYTES_MAX }),
      ...options.limits,
    },
  );
  try {
    await registry.open();
    if (options.socket === undefined) server.listen(options.port, options.host);
    else await listenOnSocket(server, options.socket);
    if (!server.listening) await once(server, "listening");
  } catch (reason) {
    await registry.close();
    throw reason;
  }

  return {
    url: options.socket === undefined ? urlOf(server.address() as AddressInfo) : options.socket,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
      await registry.close();
    },
  };
}

function urlOf({ address, port, family }: AddressInfo): string {
  const host = family === "IPv6" ? `[${address}]` : address;
  return `http://${host}:${port}`;
}
