// Next trust documents and cancels, good ones and mutants of them, against what an agent judges them
// by. Root alone says who has which role; the director alone stops a job, and only the one it names.

import { sign } from "node:crypto";
import {
  CANCEL_PAYLOAD_TYPE,
  Cancel,
  cancelBytes,
  canonicalBytes,
  type Envelope,
  Instant,
  judgeCancel,
  MANIFEST_PAYLOAD_TYPE,
  newTrust,
  nextTrust,
  preAuthEncoding,
  renewTrust,
  rotateTrust,
  sha256Hex,
  TRUST_PAYLOAD_TYPE,
  type TrustDocument,
  type TrustedKey,
  trustBytes,
} from "@exclave/core";
import { verifySignature } from "@exclave/machine";
import type { Dice } from "../simulation/dice.ts";
import { type Json, mutateAt, pickOf, placesIn } from "./mutate.ts";
import { flipped, isEnvelopePart, type Keys, makeKeys, mutated } from "./offers.ts";

const NOW = Instant.parse(1_800_000_000_000);
const ACME = "iacmeaaaaaaaaaaaa";
const JOB = "jaaaaaaaaaaaaaaab";

const root = named("ed25519");
const nextRoot = named("ed25519");
const director = named("ed25519");
const release = named("ecdsa-p256");
const checkpoint = named("ed25519");
const stranger = named("ed25519");

/** A key's id is the digest of the key. */
function named(scheme: TrustedKey["scheme"]): Keys {
  const { privateKey, trusted } = makeKeys(scheme, "");
  const keyid = sha256Hex(Buffer.from(trusted.spki, "base64"));
  return { privateKey, trusted: { ...trusted, keyid } };
}

const FIRST = newTrust(
  {
    root: root.trusted,
    director: director.trusted,
    release: release.trusted,
    checkpoint: checkpoint.trusted,
  },
  { origins: ["https://vendor.example"], now: NOW },
);
const CURRENT = { ...FIRST, version: 3 };
const RENEWED = renewTrust(CURRENT, NOW);
const MOVED = rotateTrust(CURRENT, {
  role: "root",
  key: nextRoot.trusted,
  revoke: false,
  now: NOW,
});

export interface Message {
  readonly kind: "trust" | "cancel";
  readonly envelope: unknown;
}

/** Which check refused it; `accepted` when none did. */
export function judge({ kind, envelope }: Message): string {
  const verify = verifySignature;
  const judged =
    kind === "trust"
      ? nextTrust({ current: CURRENT, envelope, now: NOW, verify })
      : judgeCancel({
          envelope,
          keys: [director.trusted],
          threshold: 1,
          verify,
          audience: ACME,
          job: JOB,
          attempt: 1,
          now: NOW,
          clockSkewMs: 60_000,
        });
  return judged.kind === "refused" ? `${kind}: ${judged.code}` : "accepted";
}

export function goodMessage(dice: Dice): Message {
  return pickOf(dice, [goodTrust, goodCancel])(dice);
}

export const CLASSES: Readonly<Record<string, (dice: Dice) => Message>> = {
  "the server without keys changes a trust document": (dice) =>
    trust(mutated(goodTrust(dice).envelope, dice, isEnvelopePart)),
  "the server without keys flips a bit of a trust document": (dice) =>
    trust(flipped(goodTrust(dice).envelope as Envelope, dice)),
  "a stranger signs a mutated trust document": (dice) => {
    const keyid = pickOf(dice, [stranger, root]).trusted.keyid;
    const pretending = { ...stranger, trusted: { ...stranger.trusted, keyid } };
    return trust(sealed(mutant(dice), [pretending]));
  },
  "another role signs a trust document": (dice) =>
    trust(sealed(pickOf(dice, [trustBytes(RENEWED), mutant(dice)]), [notRoot(dice)])),
  "one root alone signs for both": (dice) => {
    const one = pickOf(dice, [root, nextRoot, stranger]);
    // The same signature twice is one signature.
    return trust(sealed(trustBytes(MOVED), pickOf(dice, [[one], [one, one]])));
  },
  "the root signs a version that is not the next": (dice) => {
    const version = pickOf(dice, [1, 2, 3, 5 + dice.below(1_000)]);
    return trust(sealed(trustBytes({ ...RENEWED, version }), [root]));
  },
  "the root signs something else": (dice) => {
    const type = pickOf(dice, [MANIFEST_PAYLOAD_TYPE, CANCEL_PAYLOAD_TYPE]);
    return trust(sealed(trustBytes(RENEWED), [root], type));
  },
  "the server without keys changes a cancel": (dice) =>
    cancel(mutated(goodCancel(dice).envelope, dice, isEnvelopePart)),
  "the server without keys flips a bit of a cancel": (dice) =>
    cancel(flipped(goodCancel(dice).envelope as Envelope, dice)),
  "somebody else signs a cancel": (dice) => {
    const keys = pickOf(dice, [stranger, root, release, checkpoint]);
    return cancel(sealed(cancelBytes(cancelOf(dice)), [keys], CANCEL_PAYLOAD_TYPE));
  },
  "the director cancels something else, or at another time": (dice) => {
    const change = pickOf<Record<string, Json>>(dice, [
      { audience: "iglobexaaaaaaaaaa" },
      { audience: "setup" },
      { job: "jaaaaaaaaaaaaaaac" },
      { attempt: 2 + dice.below(100) },
      { issuedAt: NOW + 60_001 + dice.below(1_000_000) },
      { notAfter: NOW - 60_001 - dice.below(1_000_000) },
      { version: 2 },
      { graceMs: -1 - dice.below(100_000) },
    ]);
    const bytes = canonicalBytes({ ...cancelOf(dice), ...change });
    return cancel(sealed(bytes, [director], CANCEL_PAYLOAD_TYPE));
  },
  "the director's other words are offered as a cancel": (dice) => {
    const type = pickOf(dice, [MANIFEST_PAYLOAD_TYPE, TRUST_PAYLOAD_TYPE]);
    const envelope = sealed(cancelBytes(cancelOf(dice)), [director], type);
    return cancel(pickOf(dice, [envelope, { ...envelope, payloadType: CANCEL_PAYLOAD_TYPE }]));
  },
};

function goodTrust(dice: Dice): Message {
  const renewed = () => sealed(trustBytes(RENEWED), [root]);
  const moved = () => sealed(trustBytes(MOVED), [root, nextRoot]);
  return trust(pickOf(dice, [renewed, moved])());
}

function goodCancel(dice: Dice): Message {
  return cancel(sealed(cancelBytes(cancelOf(dice)), [director], CANCEL_PAYLOAD_TYPE));
}

function cancelOf(dice: Dice): Cancel {
  return Cancel.parse({
    version: 1,
    audience: ACME,
    job: JOB,
    attempt: 1,
    graceMs: dice.below(60_000),
    issuedAt: NOW - dice.below(60_000),
    notAfter: NOW + 600_000,
    requestedBy: "somebody",
    because: "it is tested",
  });
}

/** A next document, changed in one place; often into one that gives the stranger a role. */
function mutant(dice: Dice): Uint8Array {
  const json = JSON.parse(Buffer.from(trustBytes(RENEWED)).toString()) as Json;
  const { keyid, ...key } = stranger.trusted;
  const role = pickOf(dice, ["root", "director", "release", "checkpoint"] as const);
  const taken: TrustDocument = {
    ...RENEWED,
    keys: { ...RENEWED.keys, [keyid]: key },
    roles: { ...RENEWED.roles, [role]: { keyids: [keyid], threshold: 1 } },
  };
  const made = pickOf(dice, [
    () => mutateAt(json, pickOf(dice, placesIn(json)), dice),
    () => taken as unknown as Json,
  ])();
  return Buffer.from(JSON.stringify(made));
}

function notRoot(dice: Dice): Keys {
  return pickOf(dice, [director, release, checkpoint, nextRoot]);
}

function trust(envelope: unknown): Message {
  return { kind: "trust", envelope };
}

function cancel(envelope: unknown): Message {
  return { kind: "cancel", envelope };
}

function sealed(
  payload: Uint8Array,
  by: readonly Keys[],
  payloadType: string = TRUST_PAYLOAD_TYPE,
): Envelope {
  const signed = preAuthEncoding(payloadType, payload);
  return {
    payloadType,
    payload: Buffer.from(payload).toString("base64"),
    signatures: by.map(({ privateKey, trusted }) => {
      const algorithm = trusted.scheme === "ed25519" ? null : "sha256";
      const sig = sign(algorithm, signed, privateKey).toString("base64");
      return { keyid: trusted.keyid, sig };
    }),
  };
}
