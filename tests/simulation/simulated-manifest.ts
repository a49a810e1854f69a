// Manifests in the real format, signed in a way that costs nothing: a tag that only the real director
// of the simulation can make.

import {
  CANCEL_PAYLOAD_TYPE,
  type Cancel,
  cancelBytes,
  digestOf,
  type Envelope,
  MANIFEST_PAYLOAD_TYPE,
  type Manifest,
  manifestBytes,
  signEnvelope,
} from "@exclave/core";

const TAG = 7;

export function isSignedForSimulation(bytes: Uint8Array, signature: Uint8Array): boolean {
  return signature[0] === TAG && signature[1] === bytes.length % 251;
}

export function signManifest(manifest: Manifest, isForged: boolean): Envelope {
  return signEnvelope(MANIFEST_PAYLOAD_TYPE, manifestBytes(manifest), {
    keyid: "director",
    sign: (bytes) => Uint8Array.of(isForged ? TAG + 1 : TAG, bytes.length % 251),
  });
}

/** Valid as long as the simulation lasts: a real one is signed when it is sent. */
export function signCancel(
  { job, audience, now }: { job: string; audience: string; now: number },
  isForged: boolean,
): Envelope {
  const about = { version: 1, audience, job, attempt: 1, requestedBy: "simulation", because: "" };
  const cancel = { ...about, graceMs: 0, issuedAt: now, notAfter: now + 86_400_000 };
  return signEnvelope(CANCEL_PAYLOAD_TYPE, cancelBytes(cancel as Cancel), {
    keyid: "director",
    sign: (bytes) => Uint8Array.of(isForged ? TAG + 1 : TAG, bytes.length % 251),
  });
}

export interface ManifestWishes {
  readonly id: string;
  readonly issueNo: number;
  readonly audience: string;
  readonly operation: "apply" | "destroy" | "sync" | "exec";
  readonly component?: string | undefined;
  readonly now: number;
  readonly validMs: number;
}

const INPUTS_DIGEST = digestOf({});
const DIGEST = digestOf("image");

export function makeManifest(wishes: ManifestWishes): Manifest {
  const { id, issueNo, audience, operation, component, now, validMs } = wishes;
  const effects = { apply: "fenced", destroy: "fenced", sync: "idempotent", exec: "at-most-once" };
  return {
    version: 1,
    id,
    attempt: 1,
    audience,
    issueNo,
    operation,
    steps: [
      {
        operation,
        plugin: { repository: "exclave/runner", digest: DIGEST },
        ...(component === undefined ? {} : { component }),
        config: {},
        parameters: {},
        effect: effects[operation],
        materials: [],
      },
    ],
    inputs: {},
    inputsDigest: INPUTS_DIGEST,
    generatedSecrets: [],
    sealedSecrets: [],
    notBefore: now + Math.min(0, validMs),
    notAfter: now + validMs,
    deadlineMs: 60_000,
    limits: {},
    ...(operation === "apply" ? { statusEveryMs: 5_000 } : {}),
    requestedBy: "simulation",
    because: "the dice said so",
  } as unknown as Manifest;
}
