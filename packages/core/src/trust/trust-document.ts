// The trust document: who may say what, as keys and thresholds by role, and which registries are the
// vendor's. Root signs it; an agent pins one when it joins and follows it from version to version.

import { z } from "zod";
import { fromBase64 } from "../encoding/base64.ts";
import { canonicalBytes } from "../encoding/canonical.ts";
import { sha256Hex } from "../encoding/sha256.ts";
import { strictText } from "../encoding/utf8.ts";
import { Instant } from "../ids.ts";
import { KEY_SCHEMES, type TrustedKey } from "./envelope.ts";

export const TRUST_PAYLOAD_TYPE = "application/vnd.exclave.trust.v1+json";
export const TRUST_BYTES_MAX = 64 * 1024;

/** Root says who has the other roles, release what exists, director what an install does now, checkpoint what the record is. */
export const TRUST_ROLES = ["root", "release", "director", "checkpoint"] as const;
export const TrustRole = z.enum(TRUST_ROLES);
export type TrustRole = z.infer<typeof TrustRole>;

const KeyId = z.string().regex(/^[0-9a-f]{64}$/);

/** Scheme, host and port, as `new URL(…).origin` writes it. */
export const Origin = z
  .string()
  .max(300)
  .regex(
    /^https?:\/\/(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?$/,
    "must be an origin: a scheme, a host and perhaps a port",
  );

export const TrustKey = z.object({
  spki: z.base64().min(1).max(1024),
  scheme: z.enum(KEY_SCHEMES),
  /** Not accepted after this: how long a key that was replaced goes on being verified. */
  until: Instant.optional(),
});
export type TrustKey = z.infer<typeof TrustKey>;

export const RoleKeys = z.object({
  /** Newest first: the server signs with the first ones that its signer holds. */
  keyids: z.array(KeyId).min(1).max(16),
  threshold: z.int().min(1).max(16),
});
export type RoleKeys = z.infer<typeof RoleKeys>;

/** Fields and roles of later versions are ignored, so that an old agent can follow a new server. */
export const TrustDocument = z.object({
  version: z.int().positive(),
  expiresAt: Instant,
  keys: z.record(KeyId, TrustKey),
  roles: z.object({
    root: RoleKeys,
    release: RoleKeys,
    director: RoleKeys,
    checkpoint: RoleKeys,
  }),
  /** The vendor's registries: a grant names no other, and no pull is sent to another. */
  origins: z.array(Origin).min(1).max(32),
});
export type TrustDocument = z.infer<typeof TrustDocument>;

export function trustBytes(document: TrustDocument): Uint8Array {
  return canonicalBytes(document);
}

/** The document these bytes are; otherwise what is wrong with it, in words. */
export function parseTrust(payload: Uint8Array): TrustDocument | { readonly because: string } {
  const document = readDocument(payload);
  if (!document) return { because: "the signed payload is not a trust document" };
  const because = strangeness(document);
  return because === undefined ? document : { because };
}

/** The keys a role has now, and how many of them must sign. */
export function keysOfRole(
  { keys, roles }: TrustDocument,
  role: TrustRole,
  now: Instant,
): { readonly keys: readonly TrustedKey[]; readonly threshold: number } {
  const { keyids, threshold } = roles[role];
  const valid = keyids.flatMap((keyid): TrustedKey[] => {
    const key = keys[keyid];
    if (!key || (key.until !== undefined && now > key.until)) return [];
    return [{ keyid, spki: key.spki, scheme: key.scheme }];
  });
  return { keys: valid, threshold };
}

export function isTrustExpired({ expiresAt }: TrustDocument, now: Instant): boolean {
  return now > expiresAt;
}

function readDocument(payload: Uint8Array): TrustDocument | undefined {
  try {
    const text = strictText(payload);
    return TrustDocument.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

function strangeness({ keys, roles, origins }: TrustDocument): string | undefined {
  for (const [keyid, { spki }] of Object.entries(keys)) {
    const der = fromBase64(spki);
    if (!der || sha256Hex(der) !== keyid) return `key ${short(keyid)} does not have that id`;
  }
  const seen = new Set<string>();
  for (const role of TRUST_ROLES) {
    const because = strangeRole(role, roles[role], keys, seen);
    if (because !== undefined) return because;
  }
  if (new Set(origins).size !== origins.length) return "an origin is listed twice";
  return undefined;
}

function strangeRole(
  role: TrustRole,
  { keyids, threshold }: RoleKeys,
  keys: TrustDocument["keys"],
  seen: Set<string>,
): string | undefined {
  let lasting = 0;
  for (const keyid of keyids) {
    const key = keys[keyid];
    if (!key) return `role ${role} names key ${short(keyid)}, which is not in the document`;
    if (seen.has(keyid)) return `key ${short(keyid)} is named twice; a key has one role`;
    seen.add(keyid);
    if (key.until === undefined) lasting += 1;
    else if (role === "root") return `root key ${short(keyid)} has an end; root keys have none`;
  }
  if (lasting < threshold) {
    return `role ${role} asks for ${threshold} signatures and has ${lasting} lasting keys`;
  }
  return undefined;
}

function short(keyid: string): string {
  return keyid.slice(0, 12);
}
