// Refusals on record: failed logins, denied calls, uploads that were not taken. A failed login is also
// answered late.

import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "@exclave/core";
import { addressGroup } from "@exclave/oci";
import { audit, type ServerContext } from "../context.ts";
import type { RepeatedEntry } from "./repeats.ts";

export interface Refusal {
  readonly failure: Failure;
  /** Who asked, where that is known: a token by name. */
  readonly actor: string;
  /** What was presented and did not fit. */
  readonly secret: string | undefined;
  readonly address: string;
  /** What was asked for, as the route is written: a peer cannot invent names here. */
  readonly asked: string;
  readonly isUpload: boolean;
}

/** Puts it on record and waits as long as it deserves; the failure to answer with comes back. */
export async function noteRefusal(
  context: Pick<ServerContext, "store" | "now" | "repeats" | "failedLogins">,
  refusal: Refusal,
): Promise<Failure> {
  const { failure, secret, address } = refusal;
  const entry = entryOf(refusal);
  if (!entry) return failure;
  await noteOnRecord(context, entry);
  if (entry.action !== "login.failed" || secret === undefined) return failure;

  const delayMs = context.failedLogins.fail({ address, token: secret });
  if (delayMs === undefined) {
    return new Failure("rate_limited", "too many logins from there have failed; wait a moment");
  }
  try {
    await sleep(delayMs);
  } finally {
    context.failedLogins.answered(address);
  }
  return failure;
}

/** The first of its kind at once, the others of the same minute as one row. */
export async function noteOnRecord(
  context: Pick<ServerContext, "store" | "now" | "repeats">,
  entry: RepeatedEntry,
): Promise<void> {
  if (!context.repeats.isFirst(entry)) return;
  await context.store.transaction((tx) => audit(tx, context, entry));
}

/** The rows of windows that are over. */
export async function flushRepeats(
  context: Pick<ServerContext, "store" | "now" | "repeats">,
  options: { readonly all?: boolean } = {},
): Promise<void> {
  const rows = context.repeats.due(options);
  if (rows.length === 0) return;
  await context.store.transaction(async (tx) => {
    for (const row of rows) await audit(tx, context, row);
  });
}

function entryOf(refusal: Refusal): RepeatedEntry | undefined {
  const { failure, actor, secret, address, asked, isUpload } = refusal;
  const { code, message: because } = failure;
  if (code === "unauthenticated" && secret !== undefined) {
    // Of the hash, and not all of it: what was presented may be a secret of somewhere else.
    const secretHash = createHash("sha256").update(secret).digest("hex").slice(0, 12);
    const details = { asked, secretHash, because };
    return { actor: "nobody", action: "login.failed", subject: addressGroup(address), details };
  }
  if (code === "unauthenticated" || code === "forbidden") {
    const details = { address: addressGroup(address), because };
    return { actor, action: "call.denied", subject: asked, details };
  }
  if (!isUpload || (code !== "too_large" && code !== "invalid")) return undefined;
  return { actor, action: "upload.refused", subject: asked, details: { because } };
}

/** For `Retry-After`. */
export function retryAfterSeconds(reason: unknown): number {
  const ms = reason instanceof Failure ? reason.details["retryAfterMs"] : undefined;
  return Math.ceil((typeof ms === "number" ? ms : 1_000) / 1_000);
}
