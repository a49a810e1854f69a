// Judges a manifest an agent was offered: whether these bytes were signed by whom this agent trusts,
// are meant for it, now, and for the first time. The checks go from cheap and blind to dear and
// trusting, and nothing is read out of the payload before its signature holds.

import { toBase64 } from "../encoding/base64.ts";
import { digestOf } from "../encoding/sha256.ts";
import { strictText } from "../encoding/utf8.ts";
import { type Instant, type JobName, jobName } from "../ids.ts";
import { MANIFEST_BYTES_MAX } from "../limits.ts";
import { refuseBySandbox, type SandboxRules } from "../sandbox/sandbox-rules.ts";
import { openEnvelope, type TrustedKey, type VerifySignature } from "../trust/envelope.ts";
import {
  type Envelope,
  MANIFEST_PAYLOAD_TYPE,
  Manifest,
  preAuthEncoding,
  refuseDeadline,
} from "./manifest.ts";

export interface JudgeInput {
  /** As it came off the wire. */
  readonly envelope: unknown;
  /** The director keys of this agent's trust document. */
  readonly keys: readonly TrustedKey[];
  /** How many of them must have signed. */
  readonly threshold: number;
  readonly verify: VerifySignature;
  /** Who this agent is. */
  readonly audience: string;
  readonly now: Instant;
  readonly clockSkewMs: number;
  /** The issue number of the last manifest this agent accepted; 0 before the first. */
  readonly lastIssueNo: number;
  /** Every attempt this agent has ever accepted. */
  readonly seenAttempts: { has(name: JobName): boolean };
  /** What the customer's sandbox allows, where the agent lives in one. */
  readonly sandboxRules?: SandboxRules | undefined;
}

export type RefusalCode =
  | "invalid"
  | "signature"
  | "wrong_install"
  | "expired"
  | "replayed"
  | "policy";

export type Judgement =
  | { readonly kind: "ok"; readonly manifest: Manifest; readonly payload: Uint8Array }
  | { readonly kind: "refused"; readonly code: RefusalCode; readonly because: string };

export function judgeEnvelope(input: JudgeInput): Judgement {
  const payload = authenticate(input);
  if (!(payload instanceof Uint8Array)) return payload;

  const manifest = parseManifest(payload);
  if (!manifest) return refused("invalid", "the signed payload is not a manifest");

  return (
    refuseForUs(manifest, input) ??
    refuseByRules(manifest, input) ?? { kind: "ok", manifest, payload }
  );
}

function refuseByRules(manifest: Manifest, { sandboxRules }: JudgeInput): Refused | undefined {
  const because = sandboxRules && refuseBySandbox(manifest, sandboxRules);
  return because === undefined ? undefined : refused("policy", because);
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

type Refused = Extract<Judgement, { readonly kind: "refused" }>;

function authenticate(input: JudgeInput): Uint8Array | Refused {
  const { keys, threshold, verify } = input;
  return openEnvelope(input.envelope, {
    keys,
    threshold,
    payloadType: MANIFEST_PAYLOAD_TYPE,
    bytesMax: MANIFEST_BYTES_MAX,
    verify,
  });
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
  // One operation: locks and grants go by the manifest's, the program by its step's.
  const other = manifest.steps.find(({ operation }) => operation !== manifest.operation);
  if (other) {
    const said = `the manifest says ${manifest.operation} and its step says ${other.operation}`;
    return refused("invalid", said);
  }
  const tooLong = refuseDeadline(manifest.deadlineMs);
  if (tooLong !== undefined) return refused("invalid", tooLong);
  if (digestOf(manifest.inputs) !== manifest.inputsDigest) {
    return refused("invalid", "its inputs are not the ones it names by digest");
  }
  return undefined;
}

function parseManifest(payload: Uint8Array): Manifest | undefined {
  try {
    const text = strictText(payload);
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
