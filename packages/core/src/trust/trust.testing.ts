// Keys and trust documents for tests.

import { createPublicKey, generateKeyPairSync, sign, verify as verifyBytes } from "node:crypto";
import { toBase64 } from "../encoding/base64.ts";
import { sha256Hex } from "../encoding/sha256.ts";
import { Instant } from "../ids.ts";
import { type Envelope, preAuthEncoding } from "../manifest/manifest.ts";
import type { KeyScheme, VerifySignature } from "./envelope.ts";
import {
  TRUST_PAYLOAD_TYPE,
  type TrustDocument,
  type TrustKey,
  trustBytes,
} from "./trust-document.ts";

export interface TestKey {
  readonly keyid: string;
  readonly key: TrustKey;
  sign(bytes: Uint8Array): Uint8Array;
}

export function testKey(scheme: KeyScheme = "ed25519"): TestKey {
  const { privateKey, publicKey } =
    scheme === "ed25519"
      ? generateKeyPairSync("ed25519")
      : generateKeyPairSync("ec", { namedCurve: "P-256" });
  const der = publicKey.export({ format: "der", type: "spki" });
  const algorithm = scheme === "ed25519" ? null : "sha256";
  return {
    keyid: sha256Hex(der),
    key: { spki: toBase64(der), scheme },
    sign: (bytes) => sign(algorithm, bytes, privateKey),
  };
}

export const verifyForTest: VerifySignature = (spki, bytes, signature, scheme) => {
  try {
    const key = createPublicKey({
      key: Buffer.from(spki, "base64"),
      format: "der",
      type: "spki",
    });
    const type = scheme === "ed25519" ? "ed25519" : "ec";
    if (key.asymmetricKeyType !== type) return false;
    return verifyBytes(scheme === "ed25519" ? null : "sha256", bytes, key, signature);
  } catch {
    return false;
  }
};

export interface TestKeys {
  readonly root: readonly TestKey[];
  readonly release: readonly TestKey[];
  readonly director: readonly TestKey[];
  readonly checkpoint: readonly TestKey[];
}

export function testKeys(changes: Partial<TestKeys> = {}): TestKeys {
  return {
    root: [testKey()],
    release: [testKey("ecdsa-p256")],
    director: [testKey()],
    checkpoint: [testKey()],
    ...changes,
  };
}

export function trustOf(keys: TestKeys, changes: Partial<TrustDocument> = {}): TrustDocument {
  const role = (of: readonly TestKey[]) => ({ keyids: of.map(({ keyid }) => keyid), threshold: 1 });
  return {
    version: 1,
    expiresAt: Instant.parse(2_000_000),
    keys: Object.fromEntries(
      Object.values(keys)
        .flat()
        .map(({ keyid, key }: TestKey) => [keyid, key]),
    ),
    roles: {
      root: role(keys.root),
      release: role(keys.release),
      director: role(keys.director),
      checkpoint: role(keys.checkpoint),
    },
    origins: ["https://vendor.example"],
    ...changes,
  };
}

export function sealedBy(
  payload: Uint8Array,
  signers: readonly Pick<TestKey, "keyid" | "sign">[],
  payloadType = TRUST_PAYLOAD_TYPE,
): Envelope {
  return {
    payloadType,
    payload: toBase64(payload),
    signatures: signers.map(({ keyid, sign }) => ({
      keyid,
      sig: toBase64(sign(preAuthEncoding(payloadType, payload))),
    })),
  };
}

export function sealedTrust(
  document: TrustDocument,
  ...signers: readonly Pick<TestKey, "keyid" | "sign">[]
): Envelope {
  return sealedBy(trustBytes(document), signers);
}
