// Signed checkpoints of the record: what agents are shown of it, and what is said in the open when the
// record was set back because the server was restored from a backup.

import {
  type AuditHead,
  type AuditRecord,
  CHECKPOINT_PAYLOAD_TYPE,
  type Checkpoint,
  checkpointBytes,
  EMPTY_CHAIN,
  type Envelope,
  type Instant,
  SetBack,
} from "@exclave/core";
import type { Audit, Store, Tables } from "../store/store.ts";
import type { Trust } from "../trust/trust.ts";

export interface SignedCheckpoint {
  readonly checkpoint: Checkpoint;
  readonly envelope: Envelope;
}

export interface Checkpoints {
  /** Of the record as it is, or was a moment ago: many agents that come at once are shown the same. */
  latest(): Promise<SignedCheckpoint>;
  /** The record's heads at those sizes, as far as it is that long. */
  headsAt(sizes: readonly number[]): Promise<AuditHead[]>;
  /**
   * What an agent says it saw. Longer than the record was at this start, and not shown by this process:
   * the record was set back in between, which is put on record, once for each start.
   */
  noteSeen(agent: string, sizes: readonly number[]): Promise<void>;
  /** What this process showed it. */
  noteShown(agent: string, size: number): void;
}

/** The longest record that was ever shown to anybody, kept beside the database and not in it. */
export interface ShownSize {
  read(): Promise<number>;
  keep(size: number): Promise<void>;
  /** The same, unless it is longer already. */
  raise(size: number): Promise<void>;
}

/** One signature serves everyone who asks within this time. */
const FRESH_MS = 2_000;
const RECORD = "record";
const SET_BACK = "record.set_back";
const SET_BACKS_MAX = 64;

export async function openCheckpoints({
  store,
  trust,
  now,
  shownSize,
  isShared = () => false,
}: {
  readonly store: Store;
  readonly trust: () => Trust;
  readonly now: () => Instant;
  readonly shownSize: ShownSize;
  /** Whether other servers show the same record. */
  readonly isShared?: () => boolean;
}): Promise<Checkpoints> {
  const { audit } = store.read;
  // Read first: what another server shows from now on is in the record that is read next.
  let longest = await shownSize.read();
  // Whatever happened to the record happened before this process: what is there now was kept.
  const kept = await audit.head();
  const startedAt = now();
  let setBacks = await readSetBacks(audit);
  /** By agent: one number each. */
  const shown = new Map<string, number>();
  let cached: (SignedCheckpoint & { readonly trustVersion: number }) | undefined;
  let signing: Promise<SignedCheckpoint> | undefined;
  // At once: a record that grew beyond what was seen of it would be taken for a rewritten one.
  if (longest > kept.size) await declareSetBack("server", longest, wantInventories);

  return {
    async latest() {
      const trustVersion = trust().current().document.version;
      if (cached?.trustVersion === trustVersion) {
        if (now() - cached.checkpoint.at < FRESH_MS) return cached;
        if ((await audit.head()).head === cached.checkpoint.head) return cached;
      }
      signing ??= sign(trustVersion).finally(() => {
        signing = undefined;
      });
      return signing;
    },
    async headsAt(sizes) {
      const heads: AuditHead[] = [];
      for (const size of new Set(sizes)) {
        if (size === 0) heads.push(EMPTY_CHAIN);
        const [row] = size === 0 ? [] : await audit.after(size - 1, 1);
        if (row?.seq === size) heads.push({ size, head: row.hash });
      }
      return heads;
    },
    async noteSeen(agent, sizes) {
      const seenSize = Math.max(0, ...sizes);
      if (seenSize <= Math.max(kept.size, shown.get(agent) ?? 0)) return;
      if (setBacks.some(({ at }) => at >= startedAt)) return;
      // Another server may have shown it. Nobody can have shown more than there is.
      if (isShared() && seenSize <= (await audit.head()).size) return;
      await declareSetBack(agent, seenSize);
    },
    noteShown: (agent, size) => void shown.set(agent, size),
  };

  async function declareSetBack(
    actor: string,
    seenSize: number,
    also: (tx: Tables) => Promise<void> = async () => undefined,
  ): Promise<void> {
    const at = now();
    const setBack = { keptSize: kept.size, head: kept.head, at };
    setBacks = [...setBacks, setBack];
    cached = undefined;
    const details = { ...setBack, seenSize };
    await store.transaction(async (tx) => {
      await tx.audit.append({ at, actor, action: SET_BACK, subject: RECORD, details });
      await also(tx);
    });
    // What it was longer than is said: to say it once more at the next start would be no news.
    longest = kept.size;
    await shownSize.keep(longest);
  }

  async function sign(trustVersion: number): Promise<SignedCheckpoint> {
    const { size, head } = await audit.head();
    // Another server may have declared one.
    if (isShared()) setBacks = await readSetBacks(audit);
    const [first] = trust().after(0);
    const serverId = first?.digest ?? "";
    const checkpoint = { serverId, size, head, at: now(), setBack: setBacks.slice(-SET_BACKS_MAX) };
    // Before anybody sees it: a backup that is restored later is known to be shorter.
    if (size > longest) await shownSize.raise(size);
    longest = Math.max(longest, size);
    const payload = checkpointBytes(checkpoint);
    const envelope = await trust().seal("checkpoint", CHECKPOINT_PAYLOAD_TYPE, payload);
    cached = { checkpoint, envelope, trustVersion };
    return cached;
  }
}

/** What agents did meanwhile is asked of each, also of one that is away: until then nothing of it is taken for gone. */
async function wantInventories(tx: Tables): Promise<void> {
  for (const agent of await tx.agents.all()) {
    await tx.agents.put({ ...agent, isInventoryWanted: true });
  }
}

async function readSetBacks(audit: Pick<Audit, "newest">): Promise<SetBack[]> {
  return (await audit.newest(SET_BACKS_MAX, { subject: RECORD })).toReversed().flatMap(readSetBack);
}

function readSetBack({ action, details }: AuditRecord): SetBack[] {
  if (action !== SET_BACK) return [];
  const setBack = SetBack.safeParse(details).data;
  return setBack ? [setBack] : [];
}
