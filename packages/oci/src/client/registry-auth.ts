// How the client proves to a registry who it is: with a token it was given, or by the Docker token
// flow, in which the registry's 401 says where to get one. Tokens are kept per repository and
// action until shortly before they end.

import { Failure } from "@exclave/core";
import { z } from "zod";
import { askJson } from "./json-request.ts";

/** What somebody keeps for a registry. */
export type Credential =
  | { readonly kind: "basic"; readonly username: string; readonly password: string }
  /** A long-lived token that is only good for getting others (OAuth2, `identitytoken`). */
  | { readonly kind: "refresh"; readonly token: string }
  /** A token the registry itself takes. */
  | { readonly kind: "bearer"; readonly token: string };

/** Finds what is kept for a registry, such as `registry.example.com:5000`, or a repository in it. */
export type Credentials = (host: string, repository?: string) => Promise<Credential | undefined>;

export interface Scope {
  readonly repository: string;
  readonly action: "pull" | "push";
  /** A second repository, from which a blob is mounted. */
  readonly mountFrom?: string | undefined;
}

export interface RegistryAuthorizer {
  /** The header for a request, as far as it is known before asking. */
  header(scope: Scope | undefined): Promise<string | undefined>;
  /** Takes in a 401. True if another try may end better, for there is another header to send. */
  challenged(challenge: Challenge): Promise<boolean>;
}

export interface Challenge {
  /** What the registry wants, from its `WWW-Authenticate`. */
  readonly wanted: string | undefined;
  readonly scope: Scope | undefined;
  /** The header of the request that was refused. */
  readonly sent: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface RegistryAuthorizerOptions {
  readonly base: URL;
  readonly token?: string | (() => Promise<string>) | undefined;
  readonly credentials?: Credentials | undefined;
  /** Where tokens may come from, beside the registry's own origin; anywhere when there are none. */
  readonly origins?: readonly string[] | undefined;
  readonly ca?: string | Buffer | undefined;
  readonly now?: () => number;
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

function readAnswer(url: URL, value: unknown): z.output<typeof TokenAnswer> {
  const answer = TokenAnswer.safeParse(value);
  if (answer.success) return answer.data;
  throw new Failure("unavailable", `${url.host} answered with something that holds no token`, {
    cause: answer.error,
  });
}

const SLACK_MS = 10_000;

export function createRegistryAuthorizer(options: RegistryAuthorizerOptions): RegistryAuthorizer {
  const { base, token, credentials, ca, now = Date.now } = options;
  const tokens = new Map<string, { readonly header: string; readonly until: number }>();
  const basics = new Map<string, string>();

  return { header, challenged };

  async function header(scope: Scope | undefined): Promise<string | undefined> {
    if (token !== undefined) {
      return `Bearer ${typeof token === "string" ? token : await token()}`;
    }
    const basic = basics.get(scope?.repository ?? "");
    if (basic !== undefined) return basic;
    // Whoever may push may pull, so one token serves both.
    const found = [keyOf(scope), keyOf(scope && { ...scope, action: "push" })]
      .map((key) => tokens.get(key))
      .find((kept) => kept !== undefined && kept.until > now());
    return found?.header;
  }

  async function challenged({ wanted, scope, sent, signal }: Challenge): Promise<boolean> {
    const known = await header(scope);
    // Requests go out side by side: another one may have got what this one lacked.
    if (known !== undefined && known !== sent) return true;
    if (token !== undefined || wanted === undefined) return false;
    const fresh = await renew(wanted, scope, signal);
    return fresh !== undefined && fresh !== sent;
  }

  async function renew(
    wanted: string,
    scope: Scope | undefined,
    signal: AbortSignal | undefined,
  ): Promise<string | undefined> {
    const { scheme, parameters } = parseChallenge(wanted);
    const credential = await credentials?.(base.host, scope?.repository);
    if (scheme === "basic") {
      if (credential?.kind !== "basic") return undefined;
      const fresh = basicHeader(credential);
      basics.set(scope?.repository ?? "", fresh);
      return fresh;
    }
    if (scheme !== "bearer") return undefined;
    if (credential?.kind === "bearer") return keep(credential.token, scope, Infinity);
    const answer = await fetchToken(parameters, scope, credential, signal);
    if (answer.token === undefined) return undefined;
    const until = now() + Math.max(answer.lifetimeMs - SLACK_MS, SLACK_MS);
    return keep(answer.token, scope, until);
  }

  function keep(token: string, scope: Scope | undefined, until: number): string {
    const kept = { header: `Bearer ${token}`, until };
    tokens.set(keyOf(scope), kept);
    return kept.header;
  }

  async function fetchToken(
    { realm, service, scope: asked }: Readonly<Record<string, string>>,
    scope: Scope | undefined,
    credential: Exclude<Credential, { kind: "bearer" }> | undefined,
    signal: AbortSignal | undefined,
  ) {
    const url = readRealm(realm);
    const scopes = [
      asked ??
        (scope &&
          `repository:${scope.repository}:${scope.action === "push" ? "pull,push" : "pull"}`),
      scope?.mountFrom && `repository:${scope.mountFrom}:pull`,
    ].filter((entry) => entry !== undefined && entry !== "");
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
    for (const entry of scopes) url.searchParams.append("scope", entry as string);
    const headers = credential === undefined ? {} : { authorization: basicHeader(credential) };
    return readAnswer(url, await askJson({ url, headers, ca, signal }));
  }

  /** A password goes to the address a registry names only if nobody on the way can read it. */
  function readRealm(realm: string | undefined): URL {
    if (realm === undefined || !URL.canParse(realm)) {
      throw new Failure("unavailable", `${base.host} does not say where tokens come from`);
    }
    const url = new URL(realm);
    const { origins } = options;
    if (origins && url.origin !== base.origin && !origins.includes(url.origin)) {
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
}

export function parseChallenge(header: string): {
  readonly scheme: string;
  readonly parameters: Readonly<Record<string, string>>;
} {
  const [, scheme = "", rest = ""] = /^\s*(\S+)\s*(.*)$/s.exec(header) ?? [];
  const found = rest.matchAll(/([a-zA-Z_]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/g);
  const parameters = [...found].map(([, name = "", quoted, bare = ""]) => [
    name.toLowerCase(),
    quoted?.replace(/\\(.)/g, "$1") ?? bare,
  ]);
  return { scheme: scheme.toLowerCase(), parameters: Object.fromEntries(parameters) };
}

/** What a request on this path needs to be allowed to do. */
export function scopeOf(method: string, url: URL): Scope | undefined {
  const repository = /^\/v2\/(.+)\/(?:blobs|manifests|tags|referrers)\//.exec(url.pathname)?.[1];
  if (repository === undefined) return undefined;
  const action = method === "GET" || method === "HEAD" ? "pull" : "push";
  const isUpload = url.pathname.includes("/blobs/uploads/");
  const mountFrom = url.searchParams.get("from") ?? undefined;
  return { repository, action: isUpload ? "push" : action, mountFrom };
}

function keyOf(scope: Scope | undefined): string {
  return scope ? `${scope.repository} ${scope.action} ${scope.mountFrom ?? ""}` : "";
}

function basicHeader(credential: { username: string; password: string }): string {
  const text = `${credential.username}:${credential.password}`;
  return `Basic ${Buffer.from(text).toString("base64")}`;
}
