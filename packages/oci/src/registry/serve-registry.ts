// The embedded registry with an HTTP server of its own.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createRegistry, type RegistryOptions } from "./registry.ts";

export interface RunningRegistry {
  readonly url: string;
  close(): Promise<void>;
}

const IDLE_MS_MAX = 10 * 60_000;

export async function serveRegistry(
  options: RegistryOptions & { readonly host: string; readonly port: number },
): Promise<RunningRegistry> {
  const registry = createRegistry(options);
  // A blob may take as long as it takes, but not a peer that neither sends nor reads.
  const server = createServer(
    { requestTimeout: 0, keepAliveTimeout: 60_000 },
    (request, response) => {
      void registry.handle(request, response);
    },
  );
  server.setTimeout(IDLE_MS_MAX);
  server.listen(options.port, options.host);
  await once(server, "listening");
  const { address, port, family } = server.address() as AddressInfo;
  const host = family === "IPv6" ? `[${address}]` : address;

  return {
    url: `http://${host}:${port}`,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
      await registry.close();
    },
  };
}
