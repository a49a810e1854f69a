// Opens a DSSE envelope: gives its payload if, and only if, as many different keys of a role signed
// it as the role asks for. Nothing is read out of the payload here.

import { fromBase64 } from "../encoding/base64.ts";
import { Envelope, preAuthEncoding } from "../manifest/manifest.ts";

/** `ecdsa-p256` is over SHA-256 with the signature in DER, which cosign and every KMS can do. */
export const KEY_SCHEMES = ["ed25519", "ecdsa-p256"] as const;
export type KeyScheme = (typeof KEY_SCHEMES)[number];

/** A public key; `spki` is base64 of its DER, `keyid` the hex SHA-256 of that DER. */
export interface TrustedKey {
  readonly keyid: string;
  readonly spki: string;
  readonly scheme: KeyScheme;
}

/** Whether `signature` over `bytes` is by that key. A key that is none of its scheme verifies nothing. */
export type VerifySignature = (
  spki: string,
  bytes: Uint8Array,
  signature: Uint8Array,
  scheme: KeyScheme,
) => boolean;

export interface OpenEnvelope {
  readonly keys: readonly TrustedKey[];
  /** How many different keys must have signed. */
  readonly threshold: number;
  readonly payloadType: string;
  readonly bytesMax: number;
  readonly verify: VerifySignature;
}

export interface NotOpened {
  readonly kind: "refused";
  readonly code: "invalid" | "signature";
  readonly because: string;
}

export function openEnvelope(envelope: unknown, options: OpenEnvelope): Uint8Array | NotOpened {
  const read = readEnvelope(envelope, options);
  if ("code" in read) return read;

  const count = signersOf(read.envelope, read.payload, options).size;
  if (count === 0) return refused("signature", "no key this agent trusts signed these bytes");
  if (!(count >= options.threshold && options.threshold > 0)) {
    const because = `${count} of the ${options.threshold} keys that must sign these bytes did`;
    return refused("signature", because);
  }
  return read.payload;
}

/** What an envelope holds, whoever signed it: to be trusted for another reason, as a pinned digest. */
export function readEnvelope(
  envelope: unknown,
  { payloadType, bytesMax }: Pick<OpenEnvelope, "payloadType" | "bytesMax">,
): { readonly envelope: Envelope; readonly payload: Uint8Array } | NotOpened {
  const parsed = Envelope.safeParse(envelope).data;
  if (!parsed) return refused("invalid", "this is not a signed envelope");
  if (parsed.payload.length > Math.ceil(bytesMax / 3) * 4) {
    return refused("invalid", `the payload is over the limit of ${bytesMax} bytes`);
  }
  if (parsed.payloadType !== payloadType) {
    return refused("invalid", `the payload is ${parsed.payloadType}, not ${payloadType}`);
  }
  const payload = fromBase64(parsed.payload);
  if (!payload) return refused("invalid", "the payload is not base64");
  return { envelope: parsed, payload };
}

/** By the key itself: one key that goes by two ids, or signs twice, counts once. */
function signersOf(
  { payloadType, signatures }: Envelope,
  payload: Uint8Array,
  { keys, verify }: OpenEnvelope,
): ReadonlySet<string> {
  const signed = preAuthEncoding(payloadType, payload);
  const signers = new Set<string>();
  for (const { keyid, sig } of signatures) {
    const key = keys.find((trusted) => trusted.keyid === keyid);
    if (!key || signers.has(key.spki)) continue;
    const signature = fromBase64(sig);
    if (signature && verify(key.spki, signed, signature, key.scheme)) signers.add(key.spki);
  }
  return signers;
}

function refused(code: NotOpened["code"], because: string): NotOpened {
  return { kind: "refused", code, because };
}
