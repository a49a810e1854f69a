// The vendor's registry, inside the server: the embedded one, opened by tokens this server mints.

import type { IncomingMessage } from "node:http";
import { type Access, createRegistry, mintToken, type Registry, verifyToken } from "@exclave/oci";
import type { ServerContext } from "./context.ts";
import { GRANT_TTL_MS, PUBLISHED, REGISTRY_ISSUER, REGISTRY_SERVICE } from "./grants.ts";

export function createVendorRegistry(directory: string, context: ServerContext): Registry {
  const { keys, log, now, publicUrl } = context;
  const trust = {
    publicKeys: [keys.registry.publicKey],
    issuer: REGISTRY_ISSUER,
    audience: REGISTRY_SERVICE,
  };
  const registry = createRegistry({
    directory,
    auth: {
      kind: "token",
      realm: `${publicUrl()}/v1/registry/token`,
      service: REGISTRY_SERVICE,
      issuer: REGISTRY_ISSUER,
      publicKeys: trust.publicKeys,
    },
    now,
    onError: (reason) => log.error({ reason }, "the registry failed"),
  });

  return {
    async handle(request, response) {
      await narrow(request);
      await registry.handle(request, response);
    },
    close: () => registry.close(),
  };

  /**
   * A registry token names repositories one by one, and which images a build agent brings is known
   * only when it pushes them. So its token for all of `exclave/` is exchanged at the door, request by
   * request, for one that names the repositories this request is about. Every other token passes as
   * it is, to be judged by the registry.
   */
  async function narrow(request: IncomingMessage): Promise<void> {
    const repositories = publishedRepositories(request.url ?? "");
    const token = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? "")?.[1];
    if (repositories.length === 0 || token === undefined) return;
    const claims = await verifyToken(token, { ...trust, now: now() }).catch(() => undefined);
    const wide = claims?.access.find(({ name }) => name === PUBLISHED);
    if (!claims || !wide) return;
    const narrowed = await mintToken({
      privateKey: keys.registry.privateKey,
      issuer: REGISTRY_ISSUER,
      audience: REGISTRY_SERVICE,
      subject: claims.sub,
      jti: claims.jti,
      access: repositories.map((name): Access => ({ ...wide, name })),
      ttlMs: GRANT_TTL_MS,
      now: now(),
    });
    request.headers.authorization = `Bearer ${narrowed}`;
  }
}

/** The repositories below `exclave/` a request names: its own, and the one it mounts from. */
export function publishedRepositories(url: string): string[] {
  if (!URL.canParse(url, "http://registry")) return [];
  const { pathname, searchParams } = new URL(url, "http://registry");
  const own = /^\/v2\/(exclave\/.+?)\/(?:blobs|manifests|tags|referrers)\//.exec(pathname)?.[1];
  if (own === undefined) return [];
  const from = searchParams.get("from");
  return from?.startsWith("exclave/") ? [own, from] : [own];
}
