// The keys that a trust document names, at the signer: which of them sign, and which are forgotten.

import {
  asFailure,
  type Envelope,
  Failure,
  type Instant,
  keysOfRole,
  TRUST_PAYLOAD_TYPE,
  TRUST_ROLES,
  type TrustDocument,
  type TrustedKey,
  type TrustRole,
  toBase64,
  trustBytes,
} from "@exclave/core";
import type { Signer, SignerKey } from "../signer/signer.ts";

export interface TrustKeys {
  /** Signs with as many keys of the role as its threshold asks for. */
  seal(role: TrustRole, payloadType: string, payload: Uint8Array): Promise<Envelope>;
  /** The keys that sign for a role now: the newest that the signer holds, as many as must. */
  signingKeys(role: TrustRole): Promise<readonly TrustedKey[]>;
  /** The signer is asked anew what it holds. */
  forgetHeld(): void;
}

export function createTrustKeys(options: {
  readonly signer: Signer;
  /** The current one. */
  readonly document: () => TrustDocument;
  readonly now: () => Instant;
}): TrustKeys {
  const { signer, document, now } = options;
  let held: readonly SignerKey[] = [];

  return {
    async seal(role, payloadType, payload) {
      const keyids = (await signingKeys(role)).map(({ keyid }) => keyid);
      return signWith(signer, { role, keyids, payloadType, payload });
    },
    signingKeys,
    forgetHeld() {
      held = [];
    },
  };

  async function signingKeys(role: TrustRole): Promise<readonly TrustedKey[]> {
    const { keys, threshold } = keysOfRole(document(), role, now());
    const usableOf = (known: readonly SignerKey[]) =>
      keys.filter(({ keyid }) => isHeld(known, role, keyid)).slice(0, threshold);
    const usable = usableOf(held);
    if (usable.length === threshold) return usable;
    // Made or replaced since they were last asked for.
    held = await signer.keys();
    const found = usableOf(held);
    if (found.length === threshold) return found;
    const message = `the signer holds ${found.length} of the ${threshold} ${role} keys that must sign`;
    throw new Failure("unavailable", message);
  }
}

/** A private key that was replaced signs nothing any more: it is forgotten, not kept. */
export async function retire(
  signer: Signer,
  log: { warn(message: string): void },
  before: TrustDocument,
  after: TrustDocument,
): Promise<void> {
  for (const role of TRUST_ROLES) {
    const { keyids, threshold } = after.roles[role];
    const lasting = keyids.filter((keyid) => after.keys[keyid]?.until === undefined);
    const wanted = threshold === 1 ? lasting.slice(0, 1) : lasting;
    for (const keyid of before.roles[role].keyids) {
      if (wanted.includes(keyid)) continue;
      try {
        await signer.forget(role, keyid);
      } catch (reason) {
        const because = asFailure(reason).message;
        log.warn(`the signer keeps ${role} key ${keyid.slice(0, 12)}: ${because}`);
      }
    }
  }
}

/** Signed by the old and the new root, as far as the signer holds them. */
export async function sealNext(
  signer: Signer,
  current: TrustDocument,
  document: TrustDocument,
): Promise<{ readonly draft: Envelope; readonly isWhole: boolean }> {
  const held = await signer.keys();
  const keyids = new Set<string>();
  let isWhole = true;
  for (const { roles } of [current, document]) {
    const usable = roles.root.keyids.filter((keyid) => isHeld(held, "root", keyid));
    if (usable.length < roles.root.threshold) isWhole = false;
    for (const keyid of usable) keyids.add(keyid);
  }
  const draft = await signWith(signer, {
    role: "root",
    keyids: [...keyids],
    payloadType: TRUST_PAYLOAD_TYPE,
    payload: trustBytes(document),
  });
  return { draft, isWhole };
}

function isHeld(held: readonly SignerKey[], role: TrustRole, keyid: string): boolean {
  return held.some((key) => key.role === role && key.keyid === keyid);
}

interface SignWith {
  readonly role: TrustRole;
  readonly keyids: readonly string[];
  readonly payloadType: string;
  readonly payload: Uint8Array;
}

export async function signWith(
  signer: Signer,
  { role, keyids, payloadType, payload }: SignWith,
): Promise<Envelope> {
  const signatures = await Promise.all(
    keyids.map(async (keyid) => {
      const signature = await signer.sign({ role, keyid, payloadType, payload });
      return { keyid, sig: toBase64(signature) };
    }),
  );
  return { payloadType, payload: toBase64(payload), signatures };
}
