// How the clouds' registries turn an identity of the account into something a registry takes. Where
// the identity comes from is handed in; the exchanges themselves are here.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Failure } from "@exclave/core";
import { z } from "zod";
import type { Credential, Credentials } from "../client/auth/credential.ts";
import { askJson } from "../client/auth/json-request.ts";
import { parseBasic } from "./credentials.ts";

interface Kept {
  readonly credential: Credential;
  readonly until: number;
}

export interface EcrOptions {
  /** The answer to ECR's `GetAuthorizationToken` in that region, as the API or the CLI gives it. */
  readonly getAuthorizationToken?: (region: string) => Promise<unknown>;
  readonly now?: () => number;
}

const ECR_HOST = /^\d{12}\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)$/;
const ECR_MARGIN_MS = 60 * 60_000;

const EcrAnswer = z.object({
  authorizationData: z
    .array(
      z.object({
        authorizationToken: z.string(),
        // Seconds since 1970 in the API, a date in the CLI.
        expiresAt: z.union([
          z.number().transform((seconds) => seconds * 1_000),
          z.string().transform((text) => Date.parse(text)),
          z.date().transform((date) => date.getTime()),
        ]),
      }),
    )
    .min(1),
});

/** Basic `AWS:<token>`, good for 12 hours and the whole registry; renewed after 11. */
export function createEcrCredentials(options: EcrOptions = {}): Credentials {
  const { getAuthorizationToken = askAwsCli, now = Date.now } = options;
  return kept(now, async (host) => {
    const region = ECR_HOST.exec(host)?.[1];
    if (region === undefined) return undefined;
    const answer = EcrAnswer.safeParse(await getAuthorizationToken(region));
    const [data] = answer.data?.authorizationData ?? [];
    if (!data) throw new Failure("unauthenticated", `ECR in ${region} gave no token`);
    const credential = parseBasic(data.authorizationToken, "ECR's token");
    return { credential, until: data.expiresAt - ECR_MARGIN_MS };
  });
}

/** An OAuth access token, from a metadata service or `gcloud auth print-access-token`. */
export interface AccessToken {
  readonly token: string;
  readonly expiresAt: number;
}

export interface GarOptions {
  readonly accessToken?: () => Promise<AccessToken>;
  readonly now?: () => number;
}

const GAR_HOST = /^(?:[a-z0-9-]+-docker\.pkg\.dev|(?:[a-z]+\.)?gcr\.io)$/;
const TOKEN_MARGIN_MS = 60_000;

/** Basic `oauth2accesstoken:<token>`, good for at most an hour. */
export function createGarCredentials(options: GarOptions = {}): Credentials {
  const { now = Date.now } = options;
  const accessToken = options.accessToken ?? (() => askGoogleMetadata(now));
  return kept(now, async (host) => {
    if (!GAR_HOST.test(host)) return undefined;
    const { token, expiresAt } = await accessToken();
    return {
      credential: { kind: "basic", username: "oauth2accesstoken", password: token },
      until: expiresAt - TOKEN_MARGIN_MS,
    };
  });
}

export interface AcrOptions {
  /** A Microsoft Entra access token for `https://management.azure.com/` or the registry. */
  readonly accessToken: () => Promise<string>;
  readonly tenant?: string | undefined;
  readonly now?: () => number;
  /** Where the registry's token service is; `https://<host>` unless said otherwise. */
  readonly originOf?: (host: string) => string;
}

const ACR_HOST = /^[a-z0-9-]+\.azurecr\.(?:io|cn|us)$/i;
/** ACR's refresh tokens live for 3 hours. */
const ACR_LIFETIME_MS = 3 * 60 * 60_000;
const AcrAnswer = z.object({ refresh_token: z.string() });

/** The account's token becomes a refresh token here; `/oauth2/token` makes one per repository of it. */
export function createAcrCredentials(options: AcrOptions): Credentials {
  const { accessToken, tenant, now = Date.now } = options;
  const originOf = options.originOf ?? ((host: string) => `https://${host}`);
  return kept(now, async (host) => {
    if (!options.originOf && !ACR_HOST.test(host)) return undefined;
    const form = new URLSearchParams({
      grant_type: "access_token",
      service: host,
      access_token: await accessToken(),
      ...(tenant === undefined ? {} : { tenant }),
    });
    const url = new URL("/oauth2/exchange", originOf(host));
    const answer = AcrAnswer.safeParse(await askJson({ url, form }));
    if (!answer.success) throw new Failure("unauthenticated", `${host} gave no refresh token`);
    const credential = { kind: "refresh", token: answer.data.refresh_token } as const;
    return { credential, until: now() + ACR_LIFETIME_MS - TOKEN_MARGIN_MS };
  });
}

function kept(
  now: () => number,
  exchange: (host: string) => Promise<Kept | undefined>,
): Credentials {
  const known = new Map<string, Kept>();
  return async (host) => {
    const before = known.get(host);
    if (before && before.until > now()) return before.credential;
    const fresh = await exchange(host);
    if (fresh) known.set(host, fresh);
    return fresh?.credential;
  };
}

async function askAwsCli(region: string): Promise<unknown> {
  const args = ["ecr", "get-authorization-token", "--region", region, "--output", "json"];
  try {
    const { stdout } = await promisify(execFile)("aws", args, { timeout: 60_000 });
    return JSON.parse(stdout) as unknown;
  } catch (cause) {
    throw new Failure("unauthenticated", `aws has no token for ECR in ${region}`, { cause });
  }
}

const GoogleAnswer = z.object({ access_token: z.string(), expires_in: z.number() });

async function askGoogleMetadata(now: () => number): Promise<AccessToken> {
  const url = new URL(
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token",
  );
  const answer = await askJson({ url, headers: { "metadata-flavor": "Google" } });
  const { access_token: token, expires_in: seconds } = GoogleAnswer.parse(answer);
  return { token, expiresAt: now() + seconds * 1_000 };
}
