// Trust documents as a vendor makes them: real keys, real signatures.

import { generateKeyPairSync, sign } from "node:crypto";
import {
  type Digest,
  digestOfBytes,
  type Envelope,
  Instant,
  newTrust,
  preAuthEncoding,
  sha256Hex,
  TRUST_PAYLOAD_TYPE,
  type TrustDocument,
  type TrustedKey,
  trustBytes,
} from "@exclave/core";
import { NOW } from "./builders.ts";

export interface TestKey extends TrustedKey {
  sign(bytes: Uint8Array): Uint8Array;
}

export function testKey(): TestKey {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const der = publicKey.export({ format: "der", type: "spki" });
  return {
    keyid: sha256Hex(der),
    spki: der.toString("base64"),
    scheme: "ed25519",
    sign: (bytes) => sign(null, bytes, privateKey),
  };
}

export interface SignedTrust {
  readonly document: TrustDocument;
  readonly envelope: Envelope;
  readonly digest: Digest;
  readonly root: TestKey;
  readonly director: TestKey;
}

export function signedTrust({ root = testKey(), director = testKey() } = {}): SignedTrust {
  const keys = { root, director, release: testKey(), checkpoint: testKey() };
  const document = newTrust(keys, { origins: ["http://vendor.test"], now: Instant.parse(NOW) });
  const envelope = sealTrust(document, root);
  return { document, envelope, digest: digestOfBytes(trustBytes(document)), root, director };
}

export function sealTrust(document: TrustDocument, ...by: readonly TestKey[]): Envelope {
  const payload = trustBytes(document);
  const signed = preAuthEncoding(TRUST_PAYLOAD_TYPE, payload);
  return {
    payloadType: TRUST_PAYLOAD_TYPE,
    payload: Buffer.from(payload).toString("base64"),
    signatures: by.map((key) => ({
      keyid: key.keyid,
      sig: Buffer.from(key.sign(signed)).toString("base64"),
    })),
  };
}
