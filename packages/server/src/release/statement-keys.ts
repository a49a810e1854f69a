// Whose signatures make a release's statement count now.

import { type Instant, keysOfRole, type TrustDocument } from "@exclave/core";
import type { ReleaseRow } from "../store/rows.ts";

export interface StatementKeys {
  /** Keys of the release role that count now, and how many of them it takes. */
  readonly keyids: readonly string[];
  readonly threshold: number;
  /** Whose signatures count for a release that was stated before that was written down. */
  readonly firstKeyids: readonly string[];
}

/** By every version of the trust document, oldest first. */
export function statementKeys(documents: readonly TrustDocument[], now: Instant): StatementKeys {
  const current = documents.at(-1);
  const { keys, threshold } = current
    ? keysOfRole(current, "release", now)
    : { keys: [], threshold: 1 };
  const firstKeyids = documents[0]?.roles.release.keyids ?? [];
  return { keyids: keys.map(({ keyid }) => keyid), threshold, firstKeyids };
}

export function isCounted(
  { signedBy, unsignedBecause }: Pick<ReleaseRow, "signedBy" | "unsignedBecause">,
  { keyids, threshold, firstKeyids }: StatementKeys,
): boolean {
  // One that must not be signed any more is not asked for again.
  if (unsignedBecause !== null) return true;
  const counted = (signedBy ?? firstKeyids).filter((keyid) => keyids.includes(keyid));
  return counted.length >= threshold;
}
