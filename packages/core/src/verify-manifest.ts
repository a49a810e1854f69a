// Judges a manifest an agent was offered: whether these bytes were signed by whom this agent trusts,
// are meant for it, now, and for the first time. The checks go from cheap and blind to dear and
// trusting, and nothing is read out of the payload before its signature holds.

import { fromBase64, toBase64 } from "./base64.ts";
import { type Instant, type JobName, jobName } from "./ids.ts";
import { Envelope, MANIFEST_PAYLOAD_TYPE, Manifest, preAuthEncoding } from "./manifest.ts";
import { digestOf } from "./sha256.ts";

/** A public key pinned when the agent joined: base64 of its SPKI DER. */
export interface PinnedKey {
  readonly keyid: string;
  readonly spki: string;
}

export interface JudgeInput {
  /** As it came off the wire. */
  readonly envelope: unknown;
  /** The director keys this agent pinned. */
  readonly keys: readonly PinnedKey[];
  /** Whether `signature` over `bytes` is by that key (Ed25519). */
  readonly verify: (spki: string, bytes: Uint8Array, signature: Uint8Array) => boolean;
  /** Who this agent is: an install's name, `build` or `setup`. */
  readonly audience: string;
  readonly now: Instant;
  readonly clockSkewMs: number;
  /** The issue number of the last manifest this agent accepted; 0 before the first. */
  readonly lastIssueNo: number;
  /** Every attempt this agent has ever accepted. */
  readonly seenAttempts: { has(name: JobName): boolean };
}

export type RefusalCode = "invalid" | "signature" | "wrong_install" | "expired" | "replayed";

export type Judgement =
  | { readonly kind: "ok"; readonly manifest: Manifest; readonly payload: Uint8Array }
  | { readonly kind: "refused"; readonly code: RefusalCode; readonly because: string };

export const MANIFEST_BYTES_MAX = 192 * 1024;

export function judgeEnvelope(input: JudgeInput): Judgement {
  const payload = authenticate(input);
  if (!(payload instanceof Uint8Array)) return payload;

  const manifest = parseManifest(payload);
  if (!manifest) return refused("invalid", "the signed payload is not a manifest");

  return refuseForUs(manifest, input) ?? { kind: "ok", manifest, payload };
}

/** Signs bytes the DSSE way. `sign` gets exactly the bytes that a verifier will check. */
export function signEnvelope(
  payloadType: string,
  payload: Uint8Array,
  signer: { readonly keyid: string; sign(bytes: Uint8Array): Uint8Array },
): Envelope {
  const signature = signer.sign(preAuthEncoding(payloadType, payload));
  return {
    payloadType,
    payload: toBase64(payload),
    signatures: [{ keyid: signer.keyid, sig: toBase64(signature) }],
  };
}

/** The payload of an envelope of that type if one of these keys signed it; otherwise why not. */
export function openEnvelope(
  { envelope, keys, verify }: Pick<JudgeInput, "envelope" | "keys" | "verify">,
  { payloadType, bytesMax }: { readonly payloadType: string; readonly bytesMax: number },
): Uint8Array | Refused {
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

  const signed = preAuthEncoding(parsed.payloadType, payload);
  const isTrusted = parsed.signatures.some(({ keyid, sig }) => {
    const key = keys.find((pinned) => pinned.keyid === keyid);
    const signature = fromBase64(sig);
    return key && signature && verify(key.spki, signed, signature);
  });
  return isTrusted ? payload : refused("signature", "no key this agent trusts signed these bytes");
}

type Refused = Extract<Judgement, { readonly kind: "refused" }>;

function authenticate(input: JudgeInput): Uint8Array | Refused {
  return openEnvelope(input, { payloadType: MANIFEST_PAYLOAD_TYPE, bytesMax: MANIFEST_BYTES_MAX });
}

function refuseForUs(manifest: Manifest, input: JudgeInput): Refused | undefined {
  const { audience, now, clockSkewMs, lastIssueNo, seenAttempts } = input;
  const { id, attempt, issueNo, notBefore, notAfter } = manifest;

  if (manifest.audience !== audience) {
    return refused(
      "wrong_install",
      `it is meant for ${manifest.audience}, and this is ${audience}`,
    );
  }
  if (now + clockSkewMs < notBefore) {
    return refused("expired", `it is not valid before ${instant(notBefore)}`);
  }
  if (now - clockSkewMs > notAfter) {
    return refused("expired", `it was valid until ${instant(notAfter)}`);
  }
  if (seenAttempts.has(jobName(id, attempt))) {
    return refused("replayed", `attempt ${attempt} of ${id} was accepted before`);
  }
  if (issueNo <= lastIssueNo) {
    return refused(
      "replayed",
      `its number ${issueNo} is not above ${lastIssueNo}, the last accepted`,
    );
  }
  if (digestOf(manifest.inputs) !== manifest.inputsDigest) {
    return refused("invalid", "its inputs are not the ones it names by digest");
  }
  return undefined;
}

function parseManifest(payload: Uint8Array): Manifest | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(payload);
    return Manifest.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

function instant(at: Instant): string {
  return new Date(at).toISOString();
}

function refused(code: RefusalCode, because: string): Refused {
  return { kind: "refused", code, because };
}
