// Which certificates vouch for a registry. They are read once: there may be a hundred and more, and
// reading them anew for each connection costs more than everything else about connecting.

import { createSecureContext, type SecureContext } from "node:tls";

const KEPT_MAX = 8;
const kept = new Map<string, SecureContext>();

/** As options of a connection. Without certificates, the system's count. */
export function trustIn(ca: string | Buffer | undefined): {
  readonly secureContext?: SecureContext;
} {
  if (ca === undefined) return {};
  const key = ca.toString();
  const secureContext = kept.get(key) ?? createSecureContext({ ca });
  if (kept.size >= KEPT_MAX) kept.clear();
  kept.set(key, secureContext);
  return { secureContext };
}
