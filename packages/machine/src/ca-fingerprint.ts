// A certificate authority by the digest of its public key: what a join string pins, and what stays the
// same when the authority's certificate is issued anew.

import { createHash, type X509Certificate } from "node:crypto";

export function caFingerprint({ publicKey }: Pick<X509Certificate, "publicKey">): string {
  const spki = publicKey.export({ type: "spki", format: "der" });
  return `sha256:${createHash("sha256").update(spki).digest("hex")}`;
}
