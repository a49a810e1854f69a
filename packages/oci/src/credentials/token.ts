// Registry tokens: EdDSA JWTs with the claims of Docker's token authentication, and one of ours,
// `digests`, which narrows pulls to the manifests listed and what they hold.

import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { Digest, Failure } from "@exclave/core";
import {
  calculateJwkThumbprint,
  decodeProtectedHeader,
  errors,
  type JWK,
  jwtVerify,
  SignJWT,
} from "jose";
import { z } from "zod";

export const Action = z.enum(["pull", "push", "delete"]);
export type Action = z.infer<typeof Action>;

export const Access = z.object({
  type: z.literal("repository"),
  name: z.string(),
  actions: z.array(Action),
});
export type Access = z.infer<typeof Access>;

export const TokenClaims = z.object({
  sub: z.string(),
  jti: z.string(),
  access: z.array(Access),
  digests: z.array(Digest).optional(),
});
export type TokenClaims = z.infer<typeof TokenClaims>;

/** A PEM text, a JWK, or a key that was already read. */
export type TokenKey = string | JWK | KeyObject;

export interface MintToken {
  readonly privateKey: TokenKey;
  readonly issuer: string;
  /** The registry's `service` name. */
  readonly audience: string;
  readonly subject: string;
  readonly access: readonly GrantedAccess[];
  readonly digests?: readonly Digest[] | undefined;
  readonly ttlMs: number;
  readonly now: number;
  readonly jti: string;
}

export interface GrantedAccess {
  readonly type: "repository";
  readonly name: string;
  readonly actions: readonly Action[];
}

export async function mintToken(token: MintToken): Promise<string> {
  const key = readPrivateKey(token.privateKey);
  const issuedAt = Math.floor(token.now / 1_000);
  const { access, digests } = token;
  return (
    new SignJWT({ access, ...(digests === undefined ? {} : { digests }) })
      .setProtectedHeader({ alg: "EdDSA", typ: "JWT", kid: await keyIdOf(key) })
      .setIssuer(token.issuer)
      .setSubject(token.subject)
      .setAudience(token.audience)
      .setJti(token.jti)
      .setIssuedAt(issuedAt)
      // Two machines' clocks are never quite the same.
      .setNotBefore(issuedAt - CLOCK_SKEW_SECONDS)
      .setExpirationTime(issuedAt + Math.ceil(token.ttlMs / 1_000))
      .sign(key)
  );
}

const CLOCK_SKEW_SECONDS = 30;

/** A server mints with one key, again and again. */
const keyIds = new WeakMap<KeyObject, Promise<string>>();

function keyIdOf(privateKey: KeyObject): Promise<string> {
  const known = keyIds.get(privateKey) ?? keyId(createPublicKey(privateKey));
  keyIds.set(privateKey, known);
  return known;
}

export interface TokenVerifier {
  /** Claims of a token that is ours, for this registry and of this moment; else `unauthenticated`. */
  verify(token: string, now: number): Promise<TokenClaims>;
}

export interface TokenTrust {
  readonly publicKeys: readonly TokenKey[];
  readonly issuer: string;
  readonly audience: string;
}

export function createTokenVerifier({ publicKeys, issuer, audience }: TokenTrust): TokenVerifier {
  const keys = readKeys(publicKeys);
  // Asked again on each verification; a registry without keys lets nobody in, and says so there.
  keys.catch(() => undefined);

  return {
    async verify(token, now) {
      try {
        const { kid } = decodeProtectedHeader(token);
        const key = (await keys).get(kid ?? "");
        if (!key) throw new errors.JWTInvalid("the key is not one of ours");
        const { payload } = await jwtVerify(token, key, {
          algorithms: ["EdDSA"],
          issuer,
          audience,
          currentDate: new Date(now),
          requiredClaims: ["exp", "nbf", "iat", "jti", "sub"],
        });
        return TokenClaims.parse(payload);
      } catch (cause) {
        // Ours once, for the signature is looked at first: whoever shows it is late, and is guessing nothing.
        const isExpired = cause instanceof errors.JWTExpired;
        const reason = isExpired ? "has expired" : "is not valid here";
        throw new Failure("unauthenticated", `the registry token ${reason}`, {
          cause,
          details: { isExpired },
        });
      }
    },
  };
}

export async function verifyToken(
  token: string,
  { now, ...trust }: TokenTrust & { readonly now: number },
): Promise<TokenClaims> {
  return createTokenVerifier(trust).verify(token, now);
}

/** The name of a key in a token's header: the RFC 7638 thumbprint of its public half. */
export async function keyId(publicKey: KeyObject): Promise<string> {
  return calculateJwkThumbprint(publicKey.export({ format: "jwk" }));
}

async function readKeys(keys: readonly TokenKey[]): Promise<Map<string, KeyObject>> {
  const found = new Map<string, KeyObject>();
  for (const key of keys) {
    const publicKey = readPublicKey(key);
    if (publicKey.asymmetricKeyType !== "ed25519") {
      throw new Failure("invalid", "keys for registry tokens must be Ed25519");
    }
    found.set(await keyId(publicKey), publicKey);
  }
  return found;
}

function readPublicKey(key: TokenKey): KeyObject {
  if (typeof key === "string") return createPublicKey(key);
  if (isKeyObject(key)) return key.type === "private" ? createPublicKey(key) : key;
  return createPublicKey({ key, format: "jwk" });
}

function readPrivateKey(key: TokenKey): KeyObject {
  if (typeof key === "string") return createPrivateKey(key);
  return isKeyObject(key) ? key : createPrivateKey({ key, format: "jwk" });
}

function isKeyObject(key: JWK | KeyObject): key is KeyObject {
  return "asymmetricKeyType" in key;
}
