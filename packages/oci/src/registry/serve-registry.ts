// The embedded registry with an HTTP server of its own.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { REGISTRY_HTTP, REGISTRY_IDLE_MS_MAX } from "./http-options.ts";
import { createRegistry, type RegistryOptions } from "./registry.ts";

export interface RunningRegistry {
  readonly url: string;
  close(): Promise<void>;
}

export async function serveRegistry(
  options: RegistryOptions & { readonly host: string; readonly port: number },
): Promise<RunningRegistry> {
  const registry = createRegistry(options);
  const server = createServer(REGISTRY_HTTP, (request, response) => {
    void registry.handle(request, response);
  });
  server.setTimeout(REGISTRY_IDLE_MS_MAX);
  try {
    await registry.open();
    server.listen(options.port, options.host);
    await once(server, "listening");
  } catch (reason) {
    await registry.close();
    throw reason;
  }
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
