// The record where several transactions are under way at once. An entry is written with its transaction, without a
// place in the chain: to find its place it would have to wait for every other. A sealer links what is committed, in
// batches, one sealer at a time. Entries of transactions that came one after the other keep their order.

import { type AuditEntry, appendAudit, Instant } from "@exclave/core";
import { type Kysely, sql } from "kysely";
import { createAudit } from "../sql/audit.ts";
import type { Database } from "../sql/database.ts";
import type { Audit } from "../store.ts";

const BATCH_MAX = 500;
/** Any number that no other program uses for its lock. */
const SEALER_LOCK = 0x65_78_63_73;

/** Within a transaction. What was appended is on record when it is committed, and has its place when it is sealed. */
export function createWaitingAudit(tx: Kysely<Database>, onAppended: () => void): Audit {
  return {
    ...createAudit(tx),
    async append({ at, actor, action, subject, details }: AuditEntry) {
      await tx
        .insertInto("audit_waiting")
        .values({ at, actor, action, subject, details: JSON.stringify(details) })
        .execute();
      onAppended();
    },
  };
}

/** Outside of transactions: everything that is committed has its place before it is read. */
export function createSealedAudit(read: Kysely<Database>, seal: () => Promise<void>): Audit {
  const audit = createAudit(read);
  return {
    append: (entry) => audit.append(entry),
    head: async () => {
      await seal();
      return audit.head();
    },
    after: async (...asked) => {
      await seal();
      return audit.after(...asked);
    },
    newest: async (...asked) => {
      await seal();
      return audit.newest(...asked);
    },
  };
}

export interface Sealer {
  /** Resolves when everything that was committed before has its place. */
  seal(): Promise<void>;
  /** Soon, together with what comes until then. */
  sealSoon(): void;
  stop(): Promise<void>;
}

const SOON_MS = 50;

export function createSealer(db: Kysely<Database>): Sealer {
  let sealing: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  let soon: NodeJS.Timeout | undefined;

  return {
    seal,
    sealSoon() {
      // What fails is sealed by whoever reads next.
      soon ??= setTimeout(() => {
        soon = undefined;
        void seal().catch(() => undefined);
      }, SOON_MS).unref();
    },
    async stop() {
      clearTimeout(soon);
      await Promise.allSettled([sealing, next]);
    },
  };

  /** Who comes while one is under way cannot know whether it was seen: it waits for the next, with all others. */
  function seal(): Promise<void> {
    if (!sealing) {
      sealing = sealAll(db).finally(() => {
        sealing = undefined;
      });
      return sealing;
    }
    next ??= sealing
      .catch(() => undefined)
      .then(() => {
        next = undefined;
        return seal();
      });
    return next;
  }
}

async function sealAll(db: Kysely<Database>): Promise<void> {
  for (;;) {
    const first = await db.selectFrom("audit_waiting").select("id").limit(1).executeTakeFirst();
    if (!first) return;
    if ((await sealBatch(db)) < BATCH_MAX) return;
  }
}

function sealBatch(db: Kysely<Database>): Promise<number> {
  return db.transaction().execute(sealWaiting);
}

/** Within a transaction; returns how many were linked. */
export async function sealWaiting(tx: Kysely<Database>): Promise<number> {
  await sql`SELECT pg_advisory_xact_lock(${SEALER_LOCK})`.execute(tx);
  const { rows } = await sql<Database["audit_waiting"]>`
      WITH batch AS (SELECT id FROM audit_waiting ORDER BY id LIMIT ${BATCH_MAX}),
      taken AS (DELETE FROM audit_waiting USING batch WHERE audit_waiting.id = batch.id
        RETURNING audit_waiting.*)
      SELECT * FROM taken ORDER BY id`.execute(tx);
  if (rows.length === 0) return 0;
  let head = await createAudit(tx).head();
  const records = rows.map(({ at, actor, action, subject, details }) => {
    const entry = { actor, action, subject, at: Instant.parse(at), details: JSON.parse(details) };
    const { prevHash: prev_hash, ...record } = appendAudit(head, entry);
    head = { size: record.seq, head: record.hash };
    return { ...record, prev_hash, details };
  });
  await tx.insertInto("audit").values(records).execute();
  return rows.length;
}
