// Checks one signature with Node's crypto, for decisions of the core that agent and server share. A key
// that is none of its scheme verifies nothing.

import { createPublicKey, verify } from "node:crypto";
import type { VerifySignature } from "@exclave/core";

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
