// A signed word of the server about its record: so long it was, and ended so, at that time. Agents
// keep them, and a record that does not pass through what an agent kept is not the one it saw.

import { z } from "zod";
import { canonicalBytes } from "../encoding/canonical.ts";
import { strictText } from "../encoding/utf8.ts";
import { Instant } from "../ids.ts";
import { type OpenEnvelope, openEnvelope } from "../trust/envelope.ts";
import type { AuditHead } from "./audit-chain.ts";

export const CHECKPOINT_PAYLOAD_TYPE = "application/vnd.exclave.checkpoint.v1+json";
export const CHECKPOINT_BYTES_MAX = 64 * 1024;
/** How many an agent keeps: the first, the latest, and some in between. */
export const CHECKPOINTS_MAX = 16;
const SET_BACKS_MAX = 64;

const Hash = z.string().regex(/^[0-9a-f]{64}$/);

/** From there on rows were lost, because the server was restored from a backup; said in the open. */
export const SetBack = z.object({ keptSize: z.int().nonnegative(), head: Hash, at: Instant });
export type SetBack = z.infer<typeof SetBack>;

export const Checkpoint = z.object({
  /** Which record: the digest of the server's first trust document. */
  serverId: z.string().max(200),
  size: z.int().nonnegative(),
  head: Hash,
  at: Instant,
  setBack: z.array(SetBack).max(SET_BACKS_MAX).default([]),
});
export type Checkpoint = z.infer<typeof Checkpoint>;

export function checkpointBytes(checkpoint: Checkpoint): Uint8Array {
  return canonicalBytes(checkpoint);
}

export type CheckpointKeys = Pick<OpenEnvelope, "keys" | "threshold" | "verify">;

/** The checkpoint, if the checkpoint role signed it; otherwise why not, in words. */
export function openCheckpoint(
  envelope: unknown,
  keys: CheckpointKeys,
): Checkpoint | { readonly because: string } {
  const payload = openEnvelope(envelope, {
    ...keys,
    payloadType: CHECKPOINT_PAYLOAD_TYPE,
    bytesMax: CHECKPOINT_BYTES_MAX,
  });
  if (!(payload instanceof Uint8Array)) return { because: payload.because };
  try {
    const text = strictText(payload);
    const checkpoint = Checkpoint.safeParse(JSON.parse(text)).data;
    return checkpoint ?? { because: "the signed payload is not a checkpoint" };
  } catch {
    return { because: "the signed payload is not a checkpoint" };
  }
}

/** One that was seen and counts, as long as no set-back was declared before it. */
export interface SeenCheckpoint {
  readonly serverId: string;
  readonly size: number;
  readonly head: string;
  readonly at: number;
}

export type RecordVerdict =
  | { readonly kind: "continues" }
  /** Rows that were seen are lost, and the server says so. */
  | { readonly kind: "set_back"; readonly keptSize: number; readonly because: string }
  | { readonly kind: "refused"; readonly because: string };

/**
 * Whether a server's record continues what was seen of it. `heads` is what the server says the
 * record's head was at the sizes it was asked for; it was not told which heads were seen.
 */
export function judgeRecord({
  seen,
  checkpoint,
  heads,
}: {
  readonly seen: readonly SeenCheckpoint[];
  readonly checkpoint: Checkpoint;
  readonly heads: readonly AuditHead[];
}): RecordVerdict {
  const last = seen.at(-1);
  if (!last) return { kind: "continues" };
  if (checkpoint.serverId !== last.serverId) {
    return refused("this is the record of another server");
  }
  const said = new Map([...heads, checkpoint].map(({ size, head }) => [size, head]));
  const misses = (known: readonly SeenCheckpoint[]) =>
    known.find(({ size, head }) => said.get(size) !== head);
  const missed = misses(seen);
  if (!missed && checkpoint.size >= last.size) return { kind: "continues" };

  // Declared after the last checkpoint was made, and covering everything that does not fit. Of several the
  // one that kept least counts: what it lost, no later one brought back.
  const [declared] = checkpoint.setBack
    .filter(({ at, keptSize }) => at >= last.at && keptSize < last.size)
    .toSorted((one, other) => one.keptSize - other.keptSize);
  if (declared && !misses(seen.filter(({ size }) => size <= declared.keptSize))) {
    const because = `the server lost its record after row ${declared.keptSize}; row ${last.size} was seen before`;
    return { kind: "set_back", keptSize: declared.keptSize, because };
  }
  return refused(
    checkpoint.size < last.size
      ? `the record has ${checkpoint.size} rows, and ${last.size} were seen before`
      : `row ${missed?.size ?? last.size} of the record is not the one that was seen before`,
  );
}

function refused(because: string): RecordVerdict {
  return { kind: "refused", because };
}

const SPARSE_MS = 60 * 60_000;

/**
 * The list with one more at its end. The last one is replaced while it is young, and above the limit the
 * one goes whose neighbours are closest in time: what is left reaches back to the first.
 */
export function keepCheckpoint<Kept extends SeenCheckpoint>(
  kept: readonly Kept[],
  next: Kept,
): readonly Kept[] {
  const before = kept.at(-2);
  const isLastYoung = before !== undefined && (kept.at(-1)?.at ?? 0) - before.at < SPARSE_MS;
  const list = [...(isLastYoung ? kept.slice(0, -1) : kept), next];
  if (list.length <= CHECKPOINTS_MAX) return list;
  let closest = 1;
  const gap = (index: number) => (list[index + 1]?.at ?? 0) - (list[index - 1]?.at ?? 0);
  for (let index = 2; index < list.length - 1; index++) {
    if (gap(index) < gap(closest)) closest = index;
  }
  return list.filter((_, index) => index !== closest);
}
