// Gets a token from where a registry's challenge says that tokens come from: the Docker token flow, or OAuth2 with a
// refresh token.

import { Failure } from "@exclave/core";
import { z } from "zod";
import { mayGoTo } from "../registry-origins.ts";
import { basicHeader, type Credential } from "./credential.ts";
import { askJson } from "./json-request.ts";
import type { Scope } from "./scope.ts";

export interface TokenRequest {
  /** Of the challenge: `realm`, `service` and, if the registry named one, `scope`. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly scope: Scope | undefined;
  readonly credential: Exclude<Credential, { kind: "bearer" }> | undefined;
  readonly signal: AbortSignal | undefined;
}

/** The registry that wants a token, and whom it may send us to for one. */
export interface TokenSeeker {
  readonly base: URL;
  /** Where tokens may come from, beside the registry's own origin; anywhere when there are none. */
  readonly origins?: readonly string[] | undefined;
  readonly ca?: string | Buffer | undefined;
}

const TokenAnswer = z
  .object({
    token: z.string().optional(),
    access_token: z.string().optional(),
    expires_in: z.number().optional(),
  })
  .transform((answer) => ({
    token: answer.token ?? answer.access_token,
    // The specification's own default, and the least a token may live.
    lifetimeMs: (answer.expires_in ?? 60) * 1_000,
  }));
type TokenAnswer = z.output<typeof TokenAnswer>;

export async function fetchToken(
  seeker: TokenSeeker,
  { parameters, scope, credential, signal }: TokenRequest,
): Promise<TokenAnswer> {
  const { ca } = seeker;
  const { realm, service } = parameters;
  const url = readRealm(seeker, realm);
  const scopes = scopesOf(parameters["scope"], scope);
  if (credential?.kind === "refresh") {
    const form = new URLSearchParams({
      grant_type: "refresh_token",
      refresh_token: credential.token,
      client_id: "exclave",
      ...(service === undefined ? {} : { service }),
      ...(scopes.length === 0 ? {} : { scope: scopes.join(" ") }),
    });
    return readAnswer(url, await askJson({ url, form, ca, signal }));
  }
  if (service !== undefined) url.searchParams.set("service", service);
  for (const entry of scopes) url.searchParams.append("scope", entry);
  const headers = credential === undefined ? {} : { authorization: basicHeader(credential) };
  return readAnswer(url, await askJson({ url, headers, ca, signal }));
}

function scopesOf(asked: string | undefined, scope: Scope | undefined): readonly string[] {
  const actions = scope?.action === "push" ? "pull,push" : "pull";
  const own = asked ?? (scope && `repository:${scope.repository}:${actions}`);
  const other = scope?.mountFrom && `repository:${scope.mountFrom}:pull`;
  return [own, other].flatMap((entry) => entry || []);
}

/** A password goes to the address a registry names only if nobody on the way can read it. */
function readRealm({ base, origins }: TokenSeeker, realm: string | undefined): URL {
  if (realm === undefined || !URL.canParse(realm)) {
    throw new Failure("unavailable", `${base.host} does not say where tokens come from`);
  }
  const url = new URL(realm);
  if (!mayGoTo(url, base, origins)) {
    throw new Failure(
      "forbidden",
      `${base.host} wants a token from ${url.origin}, which is not the vendor's`,
    );
  }
  if (url.protocol !== "https:" && base.protocol === "https:") {
    throw new Failure(
      "forbidden",
      `${base.host} wants a token from ${url.origin}, which is not https`,
    );
  }
  return url;
}

function readAnswer(url: URL, value: unknown): TokenAnswer {
  const answer = TokenAnswer.safeParse(value);
  if (answer.success) return answer.data;
  throw new Failure("unavailable", `${url.host} answered with something that holds no token`, {
    cause: answer.error,
  });
}
