// The token service of the vendor's registry, for people: whoever may operate may also look. What
// pushes is a build job, with the token of its grant.

import { Failure } from "@exclave/core";
import { type Access, mintToken } from "@exclave/oci";
import type { FastifyInstance } from "fastify";
import { audit, type ServerContext } from "../context.ts";
import { REGISTRY_ISSUER, REGISTRY_SERVICE } from "../grants.ts";
import { newSecret } from "../identifiers.ts";
import { authorize, tokenOf } from "./authenticate.ts";

const TTL_MS = 5 * 60_000;

export function addRegistryTokenRoute(app: FastifyInstance, context: () => ServerContext): void {
  app.get("/v1/registry/token", async (request) => {
    const { keys, now, store } = context();
    const secret = basicPassword(request.headers.authorization);
    const token = secret === undefined ? undefined : await tokenOf(context(), secret);
    if (!token) throw new Failure("unauthenticated", "send an API token as the password");
    const caller = { name: `token:${token.name}`, role: token.role };
    authorize(caller, "operator");

    const { scope = [] } = request.query as { scope?: string | string[] };
    const access = [scope].flat().flatMap(pullOnly);
    const jti = newSecret();
    await store.transaction((tx) =>
      audit(tx, context(), {
        actor: caller.name,
        action: "grant.given",
        subject: "registry",
        details: { jti, access },
      }),
    );
    const minted = await mintToken({
      privateKey: keys.registry.privateKey,
      issuer: REGISTRY_ISSUER,
      audience: REGISTRY_SERVICE,
      subject: caller.name,
      access,
      ttlMs: TTL_MS,
      now: now(),
      jti,
    });
    const issuedAt = new Date(now()).toISOString();
    return { token: minted, access_token: minted, expires_in: TTL_MS / 1_000, issued_at: issuedAt };
  });
}

function basicPassword(authorization: string | undefined): string | undefined {
  const encoded = /^Basic (\S+)$/i.exec(authorization ?? "")?.[1];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, "base64").toString("utf8");
  return text.slice(text.indexOf(":") + 1);
}

/** `repository:name:actions`; whatever was asked for, pulling is what is given. */
function pullOnly(scope: string): Access[] {
  const name = /^repository:([^:*]+):/.exec(scope)?.[1];
  return name === undefined ? [] : [{ type: "repository", name, actions: ["pull"] }];
}
