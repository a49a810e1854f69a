// The record of everything, as a chain: each record holds the hash of the one before it, so an edit,
// a removal or an insertion anywhere breaks every hash after it. What a chain cannot show by itself
// is a missing end; a checkpoint kept elsewhere (every agent gets one) shows that too.

import { z } from "zod";
import { canonicalJson } from "../encoding/canonical.ts";
import { sha256Hex } from "../encoding/sha256.ts";
import { Instant } from "../ids.ts";

export const AuditRecord = z.object({
  seq: z.int().positive(),
  at: Instant,
  /** Who did it: a user, an agent, or the server itself. */
  actor: z.string(),
  action: z.string(),
  subject: z.string(),
  details: z.record(z.string(), z.unknown()),
  prevHash: z.string(),
  hash: z.string(),
});
export type AuditRecord = z.infer<typeof AuditRecord>;

export type AuditEntry = Omit<AuditRecord, "seq" | "prevHash" | "hash">;

/** How long the chain is and the hash of its last record. */
export interface AuditHead {
  readonly size: number;
  readonly head: string;
}

export const EMPTY_CHAIN: AuditHead = { size: 0, head: "0".repeat(64) };

export function appendAudit({ size, head }: AuditHead, entry: AuditEntry): AuditRecord {
  const { at, actor, action, subject, details } = entry;
  const content = { seq: size + 1, at, actor, action, subject, details, prevHash: head };
  return { ...content, hash: auditHash(content) };
}

export function auditHash(content: Omit<AuditRecord, "hash">): string {
  const { seq, at, actor, action, subject, details, prevHash } = content;
  return sha256Hex(canonicalJson({ seq, at, actor, action, subject, details, prevHash }));
}

export type ChainVerdict =
  | ({ readonly kind: "ok" } & AuditHead)
  | { readonly kind: "broken"; readonly seq: number; readonly because: string };

/**
 * Walks the records in order, from `after`. With checkpoints, also checks that the chain passes
 * through each of them: a rewritten or shortened chain is whole in itself and still not the one seen.
 */
export function verifyChain(
  records: Iterable<AuditRecord>,
  options: { readonly after?: AuditHead; readonly checkpoints?: readonly AuditHead[] } = {},
): ChainVerdict {
  const checkpoints = options.checkpoints ?? [];
  let last = options.after ?? EMPTY_CHAIN;
  for (const record of records) {
    const because =
      faultOf(record, last) ?? missedBy({ size: record.seq, head: record.hash }, checkpoints);
    if (because) return { kind: "broken", seq: last.size + 1, because };
    last = { size: record.seq, head: record.hash };
  }

  const beyond = checkpoints.find(({ size }) => size > last.size);
  if (beyond) {
    const because = `the chain ends at ${last.size}, and ${beyond.size} records were seen before`;
    return { kind: "broken", seq: last.size + 1, because };
  }
  return { kind: "ok", ...last };
}

function faultOf(record: AuditRecord, last: AuditHead): string | undefined {
  if (record.seq !== last.size + 1)
    return `record ${last.size + 1} is missing, ${record.seq} follows`;
  if (record.prevHash !== last.head) return "it does not follow from the record before it";
  if (auditHash(record) !== record.hash) return "its content is not what its hash was made of";
  return undefined;
}

function missedBy(reached: AuditHead, checkpoints: readonly AuditHead[]): string | undefined {
  const missed = checkpoints.some(
    ({ size, head }) => size === reached.size && head !== reached.head,
  );
  return missed ? "it is not the record that was seen at this place before" : undefined;
}
