// How the client proves to a registry who it is: with a token it was given, or by the Docker token
// flow, in which the registry's 401 says where to get one. Tokens are kept per repository and
// action until shortly before they end.

import { basicHeader, type Credentials } from "./credential.ts";
import type { Scope } from "./scope.ts";
import { fetchToken, type TokenSeeker } from "./token-request.ts";

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

export interface RegistryAuthorizerOptions extends TokenSeeker {
  readonly token?: string | (() => Promise<string>) | undefined;
  readonly credentials?: Credentials | undefined;
  readonly now?: () => number;
}

const SLACK_MS = 10_000;

export function createRegistryAuthorizer(options: RegistryAuthorizerOptions): RegistryAuthorizer {
  const { base, token, credentials, now = Date.now } = options;
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
    const answer = await fetchToken(options, { parameters, scope, credential, signal });
    if (answer.token === undefined) return undefined;
    const until = now() + Math.max(answer.lifetimeMs - SLACK_MS, SLACK_MS);
    return keep(answer.token, scope, until);
  }

  function keep(token: string, scope: Scope | undefined, until: number): string {
    const kept = { header: `Bearer ${token}`, until };
    tokens.set(keyOf(scope), kept);
    return kept.header;
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

function keyOf(scope: Scope | undefined): string {
  return scope ? `${scope.repository} ${scope.action} ${scope.mountFrom ?? ""}` : "";
}
