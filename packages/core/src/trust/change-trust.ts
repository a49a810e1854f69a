// What the next trust document says when a key is replaced, an origin moves or the end comes near.
// Each makes the whole next version; whoever holds the root key signs it, or does not.

import { Instant } from "../ids.ts";
import type { TrustedKey } from "./envelope.ts";
import {
  TRUST_ROLES,
  type TrustDocument,
  type TrustKey,
  type TrustRole,
} from "./trust-document.ts";

const DAY_MS = 24 * 60 * 60_000;
export const TRUST_VALID_MS = 365 * DAY_MS;
/** The server renews a document that has less than this left. */
export const TRUST_RENEW_MS = 90 * DAY_MS;
/** As long as a manifest is valid: what the old key signed is accepted until it would expire anyway. */
export const ROTATION_GRACE_MS = DAY_MS;

export function newTrust(
  keys: Readonly<Record<TrustRole, TrustedKey>>,
  { origins, now }: { readonly origins: readonly string[]; readonly now: Instant },
): TrustDocument {
  const role = (name: TrustRole) => ({ keyids: [keys[name].keyid], threshold: 1 });
  return {
    version: 1,
    expiresAt: Instant.parse(now + TRUST_VALID_MS),
    keys: Object.fromEntries(
      TRUST_ROLES.map((name) => [keys[name].keyid, withoutId(keys[name])] as const),
    ),
    roles: {
      root: role("root"),
      release: role("release"),
      director: role("director"),
      checkpoint: role("checkpoint"),
    },
    origins: [...origins],
  };
}

export interface RotateTrust {
  readonly role: TrustRole;
  readonly key: TrustedKey;
  /** The key that was replaced is out at once: it is lost, or in somebody else's hands. */
  readonly revoke: boolean;
  readonly now: Instant;
  readonly graceMs?: number;
}

/**
 * The new key comes first, and the oldest lasting one is replaced. A release key that was replaced
 * stays, because what it signed stays released; a director or checkpoint key stays for the grace; a
 * root key goes at once, because old and new root sign the document together.
 */
export function rotateTrust(document: TrustDocument, rotation: RotateTrust): TrustDocument {
  const { role, key, revoke, now, graceMs = ROTATION_GRACE_MS } = rotation;
  const current = pruned(document, now);
  const { keyids, threshold } = current.roles[role];
  const replaced = replacedIn(current, role, revoke);
  const isOut = (keyid: string) => replaced.has(keyid) && (revoke || role === "root");
  const until = Instant.parse(now + graceMs);

  const keys: Record<string, TrustKey> = {};
  for (const [keyid, old] of Object.entries(current.keys)) {
    if (isOut(keyid)) continue;
    const isEnding = replaced.has(keyid) && role !== "release";
    keys[keyid] = isEnding ? { ...old, until: old.until ?? until } : old;
  }
  keys[key.keyid] = withoutId(key);
  const kept = keyids.filter((keyid) => !isOut(keyid));
  const roles = { ...current.roles, [role]: { keyids: [key.keyid, ...kept], threshold } };
  return { ...next(current, now), keys, roles };
}

export function renewTrust(document: TrustDocument, now: Instant): TrustDocument {
  return next(pruned(document, now), now);
}

export function moveOrigins(
  document: TrustDocument,
  origins: readonly string[],
  now: Instant,
): TrustDocument {
  return { ...renewTrust(document, now), origins: [...origins] };
}

/** With one signature asked for, revoking leaves the new key alone; otherwise one key makes room. */
function replacedIn(
  { roles, keys }: TrustDocument,
  role: TrustRole,
  revoke: boolean,
): ReadonlySet<string> {
  const { keyids, threshold } = roles[role];
  if (threshold === 1 && (revoke || role === "root")) return new Set(keyids);
  const lasting = keyids.filter((keyid) => keys[keyid]?.until === undefined);
  const ending = revoke ? keyids.filter((keyid) => !lasting.includes(keyid)) : [];
  if (threshold === 1) return new Set([...lasting, ...ending]);
  return new Set([...lasting.slice(-1), ...ending]);
}

/** Without the keys whose end has come. */
function pruned(document: TrustDocument, now: Instant): TrustDocument {
  const keys = Object.fromEntries(
    Object.entries(document.keys).filter(([, { until }]) => until === undefined || now <= until),
  );
  const prune = ({ keyids, threshold }: TrustDocument["roles"]["root"]) => ({
    keyids: keyids.filter((keyid) => keyid in keys),
    threshold,
  });
  const { root, release, director, checkpoint } = document.roles;
  const roles = {
    root: prune(root),
    release: prune(release),
    director: prune(director),
    checkpoint: prune(checkpoint),
  };
  return { ...document, keys, roles };
}

function next(document: TrustDocument, now: Instant): TrustDocument {
  return {
    ...document,
    version: document.version + 1,
    expiresAt: Instant.parse(now + TRUST_VALID_MS),
  };
}

function withoutId({ spki, scheme }: TrustedKey): TrustKey {
  return { spki, scheme };
}
