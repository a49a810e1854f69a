// The vendor's registry, inside the server: the embedded one, opened by tokens this server mints.

import { createRegistry, type Registry } from "@exclave/oci";
import { createRegistryGate } from "./access/registry-gate.ts";
import type { RegistryPlace } from "./content/server-content.ts";
import type { ServerContext } from "./context.ts";
import { REGISTRY_ISSUER, REGISTRY_SERVICE } from "./job/grants.ts";

export interface VendorRegistryOptions {
  /** Whether other servers serve the same directory. */
  readonly isShared: boolean;
}

export function createVendorRegistry(
  place: RegistryPlace,
  context: ServerContext,
  { isShared }: VendorRegistryOptions,
): Registry {
  const { keys, log, now, publicUrl } = context;
  return createRegistry({
    ...place,
    isShared,
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

/**
 * Made when it is first asked for: a client is told where to get a token, and the port that this names may be known
 * only after listening.
 */
export function createLazyRegistry(
  place: RegistryPlace,
  context: ServerContext,
  options: VendorRegistryOptions,
): Pick<Registry, "handle" | "close"> {
  let registry: Registry | undefined;
  return {
    handle(request, response) {
      registry ??= createVendorRegistry(place, context, options);
      return registry.handle(request, response);
    },
    close: async () => registry?.close(),
  };
}
