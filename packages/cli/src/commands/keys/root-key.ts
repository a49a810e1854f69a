// The root key as a file: it signs here, and only what its holder was shown. The server gets
// signatures and never the key.

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from "node:crypto";
import type { TrustChange } from "@exclave/api";
import {
  type Envelope,
  fromBase64,
  parseTrust,
  preAuthEncoding,
  sha256Hex,
  TRUST_PAYLOAD_TYPE,
  type TrustDocument,
  type TrustRole,
  toBase64,
  trustChanges,
} from "@exclave/core";
import { readIfThere, writeDurably } from "@exclave/machine";
import { CliProblem } from "../../program/problem.ts";

export interface RootKey {
  readonly keyid: string;
  readonly spki: string;
  /** A DSSE signature. */
  sign(payloadType: string, payload: Uint8Array): string;
  /** Whether this key signed that envelope. */
  signed(envelope: Envelope): boolean;
}

export async function readRootKey(file: string): Promise<RootKey> {
  const pem = await readIfThere(file);
  if (pem === undefined) throw new CliProblem("usage", `there is no root key at ${file}`);
  return rootKeyOf(pem, file);
}

/** The key in that file; made there if there is none. */
export async function readOrMakeRootKey(file: string): Promise<RootKey> {
  const kept = await readIfThere(file);
  if (kept !== undefined) return rootKeyOf(kept, file);
  const { privateKey } = generateKeyPairSync("ed25519");
  const pem = privateKey.export({ format: "pem", type: "pkcs8" }).toString();
  await writeDurably(file, pem);
  return rootKeyOf(pem, file);
}

export function rootKeyOf(pem: string, where: string): RootKey {
  let privateKey: KeyObject;
  try {
    privateKey = createPrivateKey(pem);
  } catch {
    throw new CliProblem("usage", `${where} does not hold a private key`);
  }
  const publicKey = createPublicKey(privateKey);
  if (publicKey.asymmetricKeyType !== "ed25519") {
    throw new CliProblem("usage", `${where} does not hold an Ed25519 key`);
  }
  const der = publicKey.export({ format: "der", type: "spki" });
  const keyid = sha256Hex(der);
  return {
    keyid,
    spki: toBase64(der),
    sign: (payloadType, payload) =>
      toBase64(sign(null, preAuthEncoding(payloadType, payload), privateKey)),
    signed({ payloadType, payload, signatures }) {
      const bytes = fromBase64(payload);
      const signature = fromBase64(signatures.find((one) => one.keyid === keyid)?.sig ?? "");
      if (!bytes || !signature) return false;
      return verify(null, preAuthEncoding(payloadType, bytes), publicKey, signature);
    },
  };
}

export interface SignChange {
  readonly draft: Extract<TrustChange, { kind: "to_sign" }>;
  /** The version before, as the server has it. */
  readonly current: Envelope;
  readonly keys: readonly RootKey[];
  /** The one role that is to change; none for a renewal. */
  readonly role?: TrustRole | undefined;
}

/** The envelope with our signatures, and what it changes; fails if it is not what was asked for. */
export function signChange({ draft, current, keys, role }: SignChange): {
  readonly envelope: Envelope;
  readonly sentences: readonly string[];
} {
  const before = documentIn(current);
  const after = documentIn(draft);
  const isKnown = keys.some((key) => key.signed(current));
  if (!isKnown) {
    throw new CliProblem("usage", "this root key did not sign the server's trust document", {
      hint: "is it the root key of this server, and the newest?",
    });
  }
  if (after.version !== before.version + 1) {
    throw new CliProblem("failed", `version ${after.version} does not follow ${before.version}`);
  }
  const { roles, sentences } = trustChanges(before, after);
  const foreign = roles.find((changed) => changed !== role);
  if (foreign !== undefined) {
    throw new CliProblem(
      "failed",
      `the server asks to change ${foreign} too, which nobody wanted: nothing was signed`,
    );
  }
  const ours = keys.map((key) => ({
    keyid: key.keyid,
    sig: key.sign(TRUST_PAYLOAD_TYPE, fromBase64(draft.payload) ?? new Uint8Array()),
  }));
  const { payload } = draft;
  const signatures = [...draft.signatures, ...ours];
  return { envelope: { payloadType: TRUST_PAYLOAD_TYPE, payload, signatures }, sentences };
}

function documentIn({ payload }: Pick<Envelope, "payload">): TrustDocument {
  const bytes = fromBase64(payload);
  const document = bytes && parseTrust(bytes);
  if (document && !("because" in document)) return document;
  throw new CliProblem("failed", `the server's trust document is none: ${document?.because}`);
}
