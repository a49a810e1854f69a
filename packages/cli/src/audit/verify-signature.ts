// The same check as in `oci`, which the command line does not import: it verifies an export offline.

import { createPublicKey, verify } from "node:crypto";
import type { VerifySignature } from "@exclave/core";

/** By a key given as base64 of its SPKI DER; a key that is none of its scheme verifies nothing. */
export const verifySignature: VerifySignature = (spki, bytes, signature, scheme) => {
  try {
    const key = createPublicKey({ key: Buffer.from(spki, "base64"), format: "der", type: "spki" });
    const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
    if (scheme === "ed25519") return type === "ed25519" && verify(null, bytes, key, signature);
    const isP256 = type === "ec" && details?.namedCurve === "prime256v1";
    return isP256 && verify("sha256", bytes, key, signature);
  } catch {
    return false;
  }
};
