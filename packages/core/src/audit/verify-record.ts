// Whether a record is whole, is the one that was signed for, and is the one that was seen: from its
// rows, the trust documents of its server and checkpoints, wherever these were kept. Needs nobody's word, and
// holds none of the rows: a record is as long as its server is old.

import { fromBase64 } from "../encoding/base64.ts";
import { digestOfBytes } from "../encoding/sha256.ts";
import { Instant } from "../ids.ts";
import { Envelope } from "../manifest/manifest.ts";
import { openEnvelope, type VerifySignature } from "../trust/envelope.ts";
import { nextTrust } from "../trust/next-trust.ts";
import {
  keysOfRole,
  parseTrust,
  TRUST_BYTES_MAX,
  TRUST_PAYLOAD_TYPE,
  type TrustDocument,
} from "../trust/trust-document.ts";
import { type AuditHead, type AuditRecord, EMPTY_CHAIN, verifyChain } from "./audit-chain.ts";
import { type Checkpoint, openCheckpoint, SetBack } from "./checkpoint.ts";

export interface VerifyRecord {
  /** Every version of the trust document from the first on, as root signed them. */
  readonly trust: readonly unknown[];
  /** Signed checkpoints: the server's own, and those agents kept. */
  readonly checkpoints: readonly unknown[];
  readonly now: Instant;
  readonly verify: VerifySignature;
}

export type RecordCheck =
  | ({
      readonly kind: "ok";
      /** Which server's: the digest of its first trust document. Compare it with what you were told. */
      readonly serverId: string;
      readonly checkpoints: number;
      /** Declared losses: rows after these were lost when the server was restored. */
      readonly setBacks: readonly SetBack[];
    } & AuditHead)
  | { readonly kind: "broken"; readonly seq?: number; readonly because: string };

export interface RecordVerifier {
  /** The next rows, in order. False: it is broken already, and more of it changes nothing. */
  add(records: readonly AuditRecord[]): boolean;
  /** After the last row. */
  verdict(): RecordCheck;
}

type Broken = Extract<RecordCheck, { kind: "broken" }>;

export function createRecordVerifier(given: VerifyRecord): RecordVerifier {
  const opened = openCheckpoints(given);
  const checkpoints = "because" in opened ? [] : opened.checkpoints;
  const atSize = Map.groupBy(checkpoints, ({ size }) => size);
  const setBacks: SetBack[] = [];
  /** Checkpoints the chain does not pass through. A later row may say that they were lost. */
  const missed: Checkpoint[] = [];
  let last = EMPTY_CHAIN;
  let broken: Broken | undefined =
    "because" in opened ? { kind: "broken", because: opened.because } : undefined;

  return { add, verdict };

  function add(records: readonly AuditRecord[]): boolean {
    if (broken) return false;
    const chain = verifyChain(records, { after: last });
    if (chain.kind === "broken") broken = chain;
    else last = { size: chain.size, head: chain.head };
    for (const record of records) {
      setBacks.push(...readSetBack(record));
      const seen = atSize.get(record.seq) ?? [];
      missed.push(...seen.filter(({ head }) => head !== record.hash));
    }
    return broken === undefined;
  }

  function verdict(): RecordCheck {
    if (broken) return broken;
    const isLost = ({ size, at }: Checkpoint) =>
      setBacks.some((setBack) => setBack.keptSize < size && setBack.at >= at);
    const other = missed.find((checkpoint) => !isLost(checkpoint));
    if (other) {
      const because = "it is not the record that was seen at this place before";
      return { kind: "broken", seq: other.size, because };
    }
    const { size, head } = last;
    const beyond = checkpoints.find((checkpoint) => checkpoint.size > size && !isLost(checkpoint));
    if (beyond) {
      const because = `the chain ends at ${size}, and ${beyond.size} records were seen before`;
      return { kind: "broken", seq: size + 1, because };
    }
    const serverId = "because" in opened ? "" : opened.serverId;
    return { kind: "ok", size, head, serverId, checkpoints: checkpoints.length, setBacks };
  }
}

function openCheckpoints(
  given: VerifyRecord,
):
  | { readonly serverId: string; readonly checkpoints: readonly Checkpoint[] }
  | { readonly because: string } {
  const versions = followTrust(given);
  if ("because" in versions) return versions;
  const { serverId } = versions;
  const checkpoints: Checkpoint[] = [];
  for (const envelope of given.checkpoints) {
    const checkpoint = openCheckpointOf(versions, envelope, given.verify);
    if ("because" in checkpoint) return checkpoint;
    checkpoints.push(checkpoint);
  }
  return { serverId, checkpoints };
}

function followTrust({
  trust,
  now,
  verify,
}: VerifyRecord): RecordOwner | { readonly because: string } {
  const [first, ...later] = trust;
  const payload = fromBase64(Envelope.safeParse(first).data?.payload ?? "");
  const root = payload && parseTrust(payload);
  if (!payload || !root || "because" in root) return { because: "there is no trust document" };
  const opened = openEnvelope(first, {
    ...keysOfRole(root, "root", now),
    payloadType: TRUST_PAYLOAD_TYPE,
    bytesMax: TRUST_BYTES_MAX,
    verify,
  });
  if (!(opened instanceof Uint8Array)) return { because: `trust document 1: ${opened.because}` };
  const documents = [root];
  for (const envelope of later) {
    const current = documents.at(-1) ?? root;
    const next = nextTrust({ current, envelope, now, verify });
    if (next.kind === "refused") return { because: `a trust document: ${next.because}` };
    documents.push(next.document);
  }
  return { serverId: digestOfBytes(payload), documents };
}

/** Whose record it is: the digest of a server's first trust document, and every version of it. */
export interface RecordOwner {
  readonly serverId: string;
  readonly documents: readonly TrustDocument[];
}

/**
 * A checkpoint of that server's record, or why it is none. Keys that were replaced since may have signed
 * it: each version answers for its own time.
 */
export function openCheckpointOf(
  { serverId, documents }: RecordOwner,
  envelope: unknown,
  verify: VerifySignature,
): Checkpoint | { readonly because: string } {
  for (const document of documents) {
    const keys = keysOfRole(document, "checkpoint", Instant.parse(0));
    const checkpoint = openCheckpoint(envelope, { ...keys, verify });
    if ("because" in checkpoint) continue;
    if (checkpoint.serverId === serverId) return checkpoint;
    return { because: "a checkpoint is of another server's record" };
  }
  return { because: "a checkpoint is not signed by a checkpoint key of this server" };
}

function readSetBack({ action, details }: AuditRecord): SetBack[] {
  const setBack = action === "record.set_back" ? SetBack.safeParse(details).data : undefined;
  return setBack ? [setBack] : [];
}
