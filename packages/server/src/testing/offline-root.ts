// A root key that was taken out of a server, and signs elsewhere.

import { createPrivateKey, createPublicKey, sign } from "node:crypto";
import {
  type Client,
  exportRootKey,
  forgetRootKey,
  ROOT_EXPORT_PAYLOAD_TYPE,
  type TrustChange,
} from "@exclave/api";
import { fromBase64, preAuthEncoding, sha256Hex, TRUST_PAYLOAD_TYPE } from "@exclave/core";

type ToSign = Extract<TrustChange, { kind: "to_sign" }>;

export function signedBy(change: TrustChange, ...pems: readonly string[]) {
  const { payload, signatures } = change as ToSign;
  const bytes = preAuthEncoding(TRUST_PAYLOAD_TYPE, fromBase64(payload) ?? new Uint8Array());
  const ours = pems.map((pem) => {
    const key = createPrivateKey(pem);
    const der = createPublicKey(key).export({ format: "der", type: "spki" });
    return { keyid: sha256Hex(der), sig: sign(null, bytes, key).toString("base64") };
  });
  return { payloadType: TRUST_PAYLOAD_TYPE, payload, signatures: [...signatures, ...ours] };
}

/** Takes the root key out of the server, as `exclave keys root export` does. */
export async function takeRoot({ client }: { readonly client: Client }): Promise<string> {
  const { keyid, pem, challenge } = await client.call(exportRootKey, { body: {} });
  const bytes = fromBase64(challenge) ?? new Uint8Array();
  const signed = preAuthEncoding(ROOT_EXPORT_PAYLOAD_TYPE, bytes);
  const signature = sign(null, signed, createPrivateKey(pem)).toString("base64");
  await client.call(forgetRootKey, { body: { keyid, signature } });
  return pem;
}
