// The vendor's registry, inside the server: the embedded one, opened by tokens this server mints.

import { createRegistry, type Registry } from "@exclave/oci";
import { createRegistryGate } from "./access/registry-gate.ts";
import type { ServerContext } from "./context.ts";
import { REGISTRY_ISSUER, REGISTRY_SERVICE } from "./job/grants.ts";

export function createVendorRegistry(directory: string, context: ServerContext): Registry {
  const { keys, log, now, publicUrl } = context;
  return createRegistry({
    directory,
    auth: {
      kind: "token",
      realm: `${publicUrl()}/v1/registry/token`,
      service: REGISTRY_SERVICE,
      issuer: REGISTRY_ISSUER,
      publicKeys: [keys.registry.publicKey],
    },
    now,
    gate: createRegistryGate(context),
    onError: (reason) => log.error({ reason }, "the registry failed"),
  });
}
