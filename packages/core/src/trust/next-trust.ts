// Whether an agent takes a trust document: the first one because its digest was pinned, every later
// one because it is the next version and both the root it replaces and its own root signed it.

import { digestOfBytes } from "../encoding/sha256.ts";
import type { Digest, Instant } from "../ids.ts";
import { openEnvelope, readEnvelope, type VerifySignature } from "./envelope.ts";
import {
  isTrustExpired,
  keysOfRole,
  parseTrust,
  TRUST_BYTES_MAX,
  TRUST_PAYLOAD_TYPE,
  type TrustDocument,
} from "./trust-document.ts";

export type TrustJudgement =
  | { readonly kind: "ok"; readonly document: TrustDocument; readonly digest: Digest }
  | {
      readonly kind: "refused";
      readonly code: "invalid" | "signature" | "replayed" | "expired";
      readonly because: string;
    };

export interface NextTrust {
  readonly current: TrustDocument;
  /** As it came off the wire. */
  readonly envelope: unknown;
  readonly now: Instant;
  readonly verify: VerifySignature;
  /** Whoever publishes one wants it valid now; whoever follows many may meet expired ones between. */
  readonly mustBeValid?: boolean;
}

/**
 * An expired version is taken on the way to a later one: refusing it would leave an agent that was
 * away for long behind for good. Nothing is accepted under an expired document either way.
 */
export function nextTrust({
  current,
  envelope,
  now,
  verify,
  mustBeValid = false,
}: NextTrust): TrustJudgement {
  const before = openEnvelope(envelope, rootOf(current, now, verify));
  if (!(before instanceof Uint8Array)) {
    const because = `the root of version ${current.version} did not sign it: ${before.because}`;
    return { ...before, because };
  }
  const next = parseTrust(before);
  if ("because" in next) return refused("invalid", next.because);
  if (next.version <= current.version) {
    const because = `version ${next.version} is not after ${current.version}, the one held here`;
    return refused("replayed", because);
  }
  if (next.version !== current.version + 1) {
    const because = `version ${next.version} does not follow ${current.version} directly`;
    return refused("invalid", because);
  }
  const after = openEnvelope(envelope, rootOf(next, now, verify));
  if (!(after instanceof Uint8Array)) {
    const because = `its own root did not sign version ${next.version}: ${after.because}`;
    return { ...after, because };
  }
  if (mustBeValid && isTrustExpired(next, now)) {
    return refused("expired", `version ${next.version} has expired already`);
  }
  return { kind: "ok", document: next, digest: digestOfBytes(before) };
}

export interface FirstTrust {
  readonly envelope: unknown;
  /** From the join string: the digest of the payload. */
  readonly digest: Digest;
  readonly now: Instant;
  readonly verify: VerifySignature;
}

export function firstTrust({ envelope, digest, now, verify }: FirstTrust): TrustJudgement {
  const read = readEnvelope(envelope, OPENED);
  if ("code" in read) return read;
  const { payload } = read;
  if (digestOfBytes(payload) !== digest) {
    return refused("signature", "the trust document is not the one the join string names");
  }
  const document = parseTrust(payload);
  if ("because" in document) return refused("invalid", document.because);
  const opened = openEnvelope(envelope, rootOf(document, now, verify));
  if (!(opened instanceof Uint8Array)) return opened;
  return { kind: "ok", document, digest };
}

const OPENED = { payloadType: TRUST_PAYLOAD_TYPE, bytesMax: TRUST_BYTES_MAX } as const;

function rootOf(document: TrustDocument, now: Instant, verify: VerifySignature) {
  return { ...OPENED, ...keysOfRole(document, "root", now), verify };
}

function refused(
  code: Extract<TrustJudgement, { kind: "refused" }>["code"],
  because: string,
): TrustJudgement {
  return { kind: "refused", code, because };
}
