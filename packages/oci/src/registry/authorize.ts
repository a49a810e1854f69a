// Who may do what in the registry. A token names repositories and actions; if it also lists digests,
// it opens these manifests and what they hold, and nothing by tag.

import type { IncomingMessage } from "node:http";
import type { Digest } from "@exclave/core";
import { Failure } from "@exclave/core";
import { isDigest } from "../content/content-store.ts";
import type { Action, TokenClaims, TokenKey, TokenVerifier } from "../credentials/token.ts";
import { createTokenVerifier } from "../credentials/token.ts";
import type { Reach } from "./reach.ts";
import { RegistryError } from "./registry-error.ts";
import type { Route } from "./route.ts";

export type RegistryAuth =
  | { readonly kind: "anonymous" }
  | {
      readonly kind: "token";
      /** Where a client is told to ask for a token. */
      readonly realm: string;
      /** The registry's own name: a token's audience. */
      readonly service: string;
      readonly publicKeys: readonly TokenKey[];
      readonly issuer: string;
    };

export interface Caller {
  mayDo(repository: string, action: Action): boolean;
  /** Repositories the caller may pull from, if that is a list; undefined means all of them. */
  readonly pullsFrom: readonly string[] | undefined;
  readonly digests: readonly Digest[] | undefined;
}

const ANYONE: Caller = { mayDo: () => true, pullsFrom: undefined, digests: undefined };

export interface Authorizer {
  /** What the caller's token says, if there is one. One that is not ours is a RegistryError. */
  identify(request: IncomingMessage, route: Route): Promise<TokenClaims | undefined>;
  /** The caller, known to be allowed to do this to that; anything else is a RegistryError. */
  permit(claims: TokenClaims | undefined, method: string, route: Route): Promise<Caller>;
}

export function createAuthorizer(
  auth: RegistryAuth,
  { reach, now }: { readonly reach: Reach; readonly now: () => number },
): Authorizer {
  if (auth.kind === "anonymous") {
    return { identify: async () => undefined, permit: async () => ANYONE };
  }
  const { realm, service, issuer, publicKeys } = auth;
  const verifier = createTokenVerifier({ publicKeys, issuer, audience: service });

  return {
    identify(request, route) {
      const scope = scopeOf(actionsOf(request.method ?? "GET", route), route);
      return identify(request, verifier, now(), (error) => challenge(scope, error));
    },
    permit,
  };

  async function permit(
    claims: TokenClaims | undefined,
    method: string,
    route: Route,
  ): Promise<Caller> {
    const actions = actionsOf(method, route);
    const scope = scopeOf(actions, route);
    if (!claims) throw unauthorized("a token is needed", challenge(scope, undefined));
    const caller = callerOf(claims);
    if (route.kind === "base") return caller;

    const lacking = actions.find((action) => !caller.mayDo(route.repository, action));
    if (lacking) {
      // 401 with a challenge, so that a client with a token for something else asks for this.
      throw new RegistryError("DENIED", `the token does not allow ${lacking} here`, {
        status: 401,
        headers: { "www-authenticate": challenge(scope, "insufficient_scope") },
      });
    }
    if (caller.digests && actions.includes("pull") && actions.length === 1) {
      await checkDigests(route, caller.digests, reach);
    }
    return caller;
  }

  function challenge(scope: string | undefined, error: string | undefined): string {
    const parts = { realm, service, ...(scope && { scope }), ...(error && { error }) };
    return `Bearer ${Object.entries(parts)
      .map(([key, value]) => `${key}="${value}"`)
      .join(",")}`;
  }
}

function scopeOf(actions: readonly Action[], route: Route): string | undefined {
  return route.kind === "base" ? undefined : `repository:${route.repository}:${actions.join(",")}`;
}

function unauthorized(message: string, challenge: string, cause?: unknown): RegistryError {
  const headers = { "www-authenticate": challenge };
  return new RegistryError("UNAUTHORIZED", message, { headers, cause });
}

export function actionsOf(method: string, route: Route): Action[] {
  if (route.kind === "base") return [];
  if (route.kind === "uploads" || route.kind === "upload") return ["pull", "push"];
  if (method === "GET" || method === "HEAD") return ["pull"];
  return method === "DELETE" ? ["delete"] : ["pull", "push"];
}

async function identify(
  request: IncomingMessage,
  verifier: TokenVerifier,
  now: number,
  challenge: (error: string) => string,
): Promise<TokenClaims | undefined> {
  const token = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? "")?.[1];
  if (token === undefined) return undefined;
  try {
    return await verifier.verify(token, now);
  } catch (cause) {
    if (!(cause instanceof Failure)) throw cause;
    throw unauthorized(cause.message, challenge("invalid_token"), cause);
  }
}

function callerOf({ access, digests }: TokenClaims): Caller {
  return {
    mayDo: (repository, action) =>
      access.some(({ name, actions }) => name === repository && actions.includes(action)),
    pullsFrom: access.filter(({ actions }) => actions.includes("pull")).map(({ name }) => name),
    digests,
  };
}

async function checkDigests(route: Route, digests: readonly Digest[], reach: Reach) {
  switch (route.kind) {
    case "manifest":
      if (
        isDigest(route.reference) &&
        (await reach.holds(digests, route.reference, route.repository))
      )
        return;
      break;
    case "blob":
    case "referrers":
      if (await reach.holds(digests, route.digest, route.repository)) return;
      break;
    default:
  }
  throw new RegistryError(
    "DENIED",
    "the token is for certain digests, and this is not one of them",
  );
}
