// The wish that a job stop, signed by the director like the manifest that started it: whoever merely
// sits on the link can stop nothing. A job always gets the time to stop in order.

import { z } from "zod";
import { canonicalBytes } from "../encoding/canonical.ts";
import { strictText } from "../encoding/utf8.ts";
import { Audience, Instant, JobId } from "../ids.ts";
import { openEnvelope, type TrustedKey, type VerifySignature } from "../trust/envelope.ts";
import type { Operation } from "./manifest.ts";

export const CANCEL_PAYLOAD_TYPE = "application/vnd.exclave.cancel.v1+json";
export const CANCEL_BYTES_MAX = 8 * 1024;
/** Signed when it is sent, so it need not be valid for long. */
export const CANCEL_VALID_MS = 15 * 60_000;

export const Cancel = z.object({
  version: z.literal(1),
  audience: Audience,
  job: JobId,
  attempt: z.int().positive(),
  graceMs: z.int().nonnegative(),
  issuedAt: Instant,
  notAfter: Instant,
  requestedBy: z.string().max(500),
  because: z.string().max(2_000),
});
export type Cancel = z.infer<typeof Cancel>;

export function cancelBytes(cancel: Cancel): Uint8Array {
  return canonicalBytes(cancel);
}

export interface JudgeCancel {
  /** As it came off the wire; absent from one that nobody signed. */
  readonly envelope: unknown;
  readonly keys: readonly TrustedKey[];
  readonly threshold: number;
  readonly verify: VerifySignature;
  readonly audience: string;
  /** Which attempt the command is about. */
  readonly job: string;
  readonly attempt: number;
  readonly now: Instant;
  readonly clockSkewMs: number;
}

export type CancelJudgement =
  | { readonly kind: "ok"; readonly cancel: Cancel }
  | {
      readonly kind: "refused";
      readonly code: "invalid" | "signature" | "wrong_install" | "expired" | "replayed";
      readonly because: string;
    };

export function judgeCancel(input: JudgeCancel): CancelJudgement {
  if (input.envelope === undefined) return refused("signature", "nobody signed it");
  const { keys, threshold, verify } = input;
  const limits = { payloadType: CANCEL_PAYLOAD_TYPE, bytesMax: CANCEL_BYTES_MAX };
  const payload = openEnvelope(input.envelope, { keys, threshold, verify, ...limits });
  if (!(payload instanceof Uint8Array)) return payload;
  const cancel = parseCancel(payload);
  if (!cancel) return refused("invalid", "the signed payload is not a cancel");
  if (cancel.audience !== input.audience) {
    return refused("wrong_install", `it is meant for ${cancel.audience}`);
  }
  if (cancel.job !== input.job || cancel.attempt !== input.attempt) {
    const meant = `attempt ${cancel.attempt} of ${cancel.job}`;
    return refused("invalid", `what is signed is about ${meant}`);
  }
  const isEarly = input.now + input.clockSkewMs < cancel.issuedAt;
  if (isEarly || input.now - input.clockSkewMs > cancel.notAfter) {
    return refused("expired", `it was valid until ${new Date(cancel.notAfter).toISOString()}`);
  }
  return { kind: "ok", cancel };
}

const GRACE_MS_MIN = 10_000;
const CHANGING_GRACE_MS_MIN = 30_000;

/** However short a grace was asked for: what changes the world is not cut off in the middle. */
export function graceFor(operation: Operation, askedMs: number): number {
  const isChanging = operation === "apply" || operation === "destroy";
  return Math.max(askedMs, isChanging ? CHANGING_GRACE_MS_MIN : GRACE_MS_MIN);
}

function parseCancel(payload: Uint8Array): Cancel | undefined {
  try {
    const text = strictText(payload);
    return Cancel.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

function refused(
  code: Extract<CancelJudgement, { kind: "refused" }>["code"],
  because: string,
): CancelJudgement {
  return { kind: "refused", code, because };
}
