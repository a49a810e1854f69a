// Learns the authority that takes the place of a pinned one. The server shows it while it is replaced: by itself, and as
// the pinned one has signed it. Only who holds the pinned authority's key can have signed that.

import { X509Certificate } from "node:crypto";
import { caFingerprint } from "./ca-fingerprint.ts";

/** More is not kept: the newest, and those before it. */
const KEPT_MAX = 4;
const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** The pinned certificates with those they vouch for, the new ones first; undefined where there is nothing to learn. */
export function learnAuthorities(
  pinned: string,
  presented: readonly X509Certificate[],
): string | undefined {
  const known = certificatesIn(pinned);
  const fingerprints = new Set(known.map(caFingerprint));
  const learned = presented.filter((one) => {
    if (!one.ca || fingerprints.has(caFingerprint(one)) || !isSelfSigned(one)) return false;
    return presented.some((cross) => isVouchedFor(cross, one, known));
  });
  if (learned.length === 0) return undefined;
  return [...learned, ...known]
    .slice(0, KEPT_MAX)
    .map((one) => one.toString())
    .join("");
}

/** A certificate for the same key and name, by one that is known. */
function isVouchedFor(
  cross: X509Certificate,
  authority: X509Certificate,
  known: readonly X509Certificate[],
): boolean {
  if (!cross.ca || cross.subject !== authority.subject) return false;
  if (caFingerprint(cross) !== caFingerprint(authority)) return false;
  return known.some((one) => cross.checkIssued(one) && cross.verify(one.publicKey));
}

function isSelfSigned(one: X509Certificate): boolean {
  return one.checkIssued(one) && one.verify(one.publicKey);
}

function certificatesIn(pem: string): X509Certificate[] {
  return (pem.match(PEM) ?? []).map((one) => new X509Certificate(one));
}
