// What an HTTP server has to allow that a registry is put into.

import type { ServerOptions } from "node:http";

/** A blob may take as long as it takes, but not a peer that neither sends nor reads. */
export const REGISTRY_IDLE_MS_MAX = 10 * 60_000;

export const REGISTRY_HTTP = {
  requestTimeout: 0,
  keepAliveTimeout: 60_000,
  // A token names every repository a sync writes to and mounts from: some hundred, and each costs its name.
  maxHeaderSize: 256 * 1024,
} as const satisfies ServerOptions;
