// The port to whoever holds the private keys: a process of its own, or one that runs elsewhere with
// a key service behind it. The server asks for signatures and never sees a key.
// docs/specs/signer-v1.md says it on the wire.

import {
  CANCEL_PAYLOAD_TYPE,
  CHECKPOINT_PAYLOAD_TYPE,
  Failure,
  IN_TOTO_PAYLOAD_TYPE,
  type KeyScheme,
  MANIFEST_PAYLOAD_TYPE,
  TRUST_PAYLOAD_TYPE,
  type TrustRole,
} from "@exclave/core";

export interface SignerKey {
  readonly role: TrustRole;
  readonly keyid: string;
  /** Base64 of the public key's SPKI DER. */
  readonly spki: string;
  readonly scheme: KeyScheme;
}

export interface SignRequest {
  readonly role: TrustRole;
  /** Which of the role's keys. */
  readonly keyid: string;
  readonly payloadType: string;
  readonly payload: Uint8Array;
}

export interface Signer {
  /** The public halves of every key it holds. */
  keys(): Promise<readonly SignerKey[]>;
  /** A DSSE signature. Refuses payload types that are not the role's, and keys it does not hold. */
  sign(request: SignRequest): Promise<Uint8Array>;
  /** Makes a key for a role. It counts for nothing until a trust document names it. */
  make(role: TrustRole): Promise<SignerKey>;
  /** Forgets a key for good. Forgetting one it does not hold changes nothing. */
  forget(role: TrustRole, keyid: string): Promise<void>;
  /** The private root key as PEM, to be taken offline. Refuses every other role. */
  exportRoot(keyid: string): Promise<string>;
  close(): Promise<void>;
}

interface RoleRule {
  readonly payloadTypes: readonly string[];
  readonly bytesMax: number;
  readonly scheme: KeyScheme;
}

/** What each role signs, and how much of it at once. */
export const ROLE_RULES: Readonly<Record<TrustRole, RoleRule>> = {
  root: { payloadTypes: [TRUST_PAYLOAD_TYPE], bytesMax: 64 * 1024, scheme: "ed25519" },
  director: {
    payloadTypes: [MANIFEST_PAYLOAD_TYPE, CANCEL_PAYLOAD_TYPE],
    bytesMax: 256 * 1024,
    scheme: "ed25519",
  },
  checkpoint: { payloadTypes: [CHECKPOINT_PAYLOAD_TYPE], bytesMax: 64 * 1024, scheme: "ed25519" },
  // P-256: what cosign and every other tool that checks signatures of artifacts understands.
  release: {
    payloadTypes: [IN_TOTO_PAYLOAD_TYPE],
    bytesMax: 1024 * 1024,
    scheme: "ecdsa-p256",
  },
};

/** Fails unless that role signs such a payload. */
export function checkSignRequest({ role, payloadType, payload }: SignRequest): void {
  const { payloadTypes, bytesMax } = ROLE_RULES[role];
  if (!payloadTypes.includes(payloadType)) {
    throw new Failure("forbidden", `the ${role} role does not sign ${payloadType}`);
  }
  if (payload.length > bytesMax) {
    throw new Failure("too_large", `the ${role} role signs at most ${bytesMax} bytes`);
  }
}
