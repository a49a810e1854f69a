// The release role as the writers of signed artifacts want it: something with a public key that signs
// bytes. The bytes are a DSSE pre-authentication encoding; the signer wants what they are made of, so
// that it can refuse what is not the role's.

import { createPublicKey } from "node:crypto";
import { Failure } from "@exclave/core";
import type { Signer as ArtifactSigner } from "@exclave/oci";
import type { Trust } from "./trust.ts";

export type ReleaseSigner = ArtifactSigner & { readonly keyid: string };

export async function releaseSigners(trust: Trust): Promise<ReleaseSigner[]> {
  const keys = await trust.signingKeys("release");
  return keys.map(({ keyid, spki }) => ({
    keyid,
    publicKey: createPublicKey({ key: Buffer.from(spki, "base64"), format: "der", type: "spki" }),
    sign: (bytes) => trust.signer.sign({ role: "release", keyid, ...readPreAuth(bytes) }),
  }));
}

function readPreAuth(bytes: Uint8Array): { payloadType: string; payload: Uint8Array } {
  const text = Buffer.from(bytes).toString("latin1");
  const match = /^DSSEv1 ([0-9]+) ([!-~]+) ([0-9]+) /.exec(text);
  const [head = "", typeLength, payloadType = "", length] = match ?? [];
  const payload = bytes.subarray(head.length);
  if (Number(typeLength) !== payloadType.length || Number(length) !== payload.length) {
    throw new Failure("bug", "a release is signed over something that is no envelope");
  }
  return { payloadType, payload };
}
