// The store in memory: for the simulation, where a server's memory outlives its crash, and for tests
// that need no file. It keeps the same contract as the databases.

import {
  type AuditEntry,
  type AuditHead,
  type AuditRecord,
  appendAudit,
  EMPTY_CHAIN,
} from "@exclave/core";
import type { Audit, Outbox, OutboxRow, Store, Tables } from "../store.ts";
import { createTables, type NounTable, ONE_NAME_EACH } from "../tables.ts";
import { createMemoryDocuments, type MemoryRow, type MemoryTable } from "./memory-documents.ts";

/** What is kept when the process that uses it is gone. Stores opened on the same one see the same. */
export interface MemoryDisk {
  /** All that was committed, as a value that never changes: to keep it is to make a backup. */
  data: MemoryData;
}

export interface MemoryData {
  readonly nouns: ReadonlyMap<NounTable, ReadonlyMap<string, MemoryRow>>;
  readonly outbox: readonly OutboxRow[];
  readonly outboxHead: number;
  readonly audit: readonly AuditRecord[];
  readonly issues: ReadonlyMap<string, number>;
  readonly ordinal: number;
}

const EMPTY: MemoryData = {
  nouns: new Map(),
  outbox: [],
  outboxHead: 0,
  audit: [],
  issues: new Map(),
  ordinal: 0,
};

export function newMemoryDisk(): MemoryDisk {
  return { data: EMPTY };
}

export interface MemoryStoreOptions {
  readonly disk?: MemoryDisk;
  /** Called before a commit counts; what it throws undoes the transaction. */
  readonly beforeCommit?: () => Promise<void> | void;
  /** Rows are kept as they are given, without a look at their schema: somebody else looks later. */
  readonly isTrusted?: boolean;
}

export function createMemoryStore(options: MemoryStoreOptions = {}): Store {
  const { disk = newMemoryDisk(), beforeCommit, isTrusted = false } = options;
  let last: Promise<unknown> = Promise.resolve();
  // Transactions do not overlap: one draft at a time.
  let draft = disk.data;
  const drafted = tablesOver(
    () => draft,
    (next) => {
      draft = next;
    },
    isTrusted,
  );

  return {
    read: tablesOver(() => disk.data, refuseToWrite),
    transaction<Result>(work: (tx: Tables) => Promise<Result>): Promise<Result> {
      const result = last.then(() => run(work));
      last = result.catch(() => undefined);
      return result;
    },
    close: async () => undefined,
  };

  async function run<Result>(work: (tx: Tables) => Promise<Result>): Promise<Result> {
    draft = disk.data;
    const result = await work(drafted);
    await beforeCommit?.();
    disk.data = draft;
    return result;
  }
}

function refuseToWrite(): void {
  throw new TypeError("a reader does not write");
}

function tablesOver(
  read: () => MemoryData,
  write: (next: MemoryData) => void,
  isTrusted = false,
): Tables {
  return createTables({
    documents: (table, schema, columnsOf) =>
      createMemoryDocuments(memoryTable(table, read, write), schema, columnsOf, { isTrusted }),
    outbox: memoryOutbox(read, write),
    audit: memoryAudit(read, write),
    async nextIssueNo(audience) {
      const number = (read().issues.get(audience) ?? 0) + 1;
      write({ ...read(), issues: new Map(read().issues).set(audience, number) });
      return number;
    },
    async raiseIssueNo(audience, atLeast) {
      const before = read().issues.get(audience) ?? 0;
      if (before < atLeast) {
        write({ ...read(), issues: new Map(read().issues).set(audience, atLeast) });
      }
      return before;
    },
  });
}

function memoryTable(
  table: NounTable,
  read: () => MemoryData,
  write: (next: MemoryData) => void,
): MemoryTable {
  const rows = () => read().nouns.get(table) ?? new Map<string, MemoryRow>();
  const replace = (next: ReadonlyMap<string, MemoryRow>, ordinal: number) =>
    write({ ...read(), nouns: new Map(read().nouns).set(table, next), ordinal });

  return {
    get: (key) => rows().get(key),
    set(key, row) {
      const { name } = row.columns;
      const isTaken = (other: MemoryRow, at: string) =>
        at !== key && other.columns["name"] === name;
      if (ONE_NAME_EACH.includes(table) && [...rows()].some(([at, other]) => isTaken(other, at))) {
        throw new Error(`UNIQUE constraint failed: ${table}.name`);
      }
      const ordinal = rows().get(key)?.ordinal ?? read().ordinal + 1;
      replace(new Map(rows()).set(key, { ...row, ordinal }), Math.max(read().ordinal, ordinal));
    },
    remove(key) {
      const next = new Map(rows());
      const wasThere = next.delete(key);
      if (wasThere) replace(next, read().ordinal);
      return wasThere;
    },
    rows: () => [...rows().values()],
  };
}

function memoryOutbox(read: () => MemoryData, write: (next: MemoryData) => void): Outbox {
  const of = (audience: string) => read().outbox.filter((row) => row.audience === audience);
  const keep = (isKept: (row: OutboxRow) => boolean) =>
    write({ ...read(), outbox: read().outbox.filter(isKept) });

  return {
    async add(audience, body) {
      const id = read().outboxHead + 1;
      const row: OutboxRow = { id, audience, seq: null, job: body.job, body };
      write({ ...read(), outbox: [...read().outbox, row], outboxHead: id });
    },
    async sent(audience) {
      return of(audience)
        .filter(({ seq }) => seq !== null)
        .sort((a, b) => (a.seq ?? 0) - (b.seq ?? 0));
    },
    waiting: async (audience, limit) =>
      of(audience)
        .filter(({ seq }) => seq === null)
        .slice(0, limit),
    async assign(id, seq) {
      const outbox = read().outbox.map((row) => (row.id === id ? { ...row, seq } : row));
      write({ ...read(), outbox });
    },
    async replace(id, body) {
      const outbox = read().outbox.map((row) =>
        row.id === id ? { ...row, job: body.job, body } : row,
      );
      write({ ...read(), outbox });
    },
    async trim(audience, upTo) {
      keep(({ audience: whose, seq }) => whose !== audience || seq === null || seq > upTo);
    },
    withdraw: async (job) => keep((row) => row.job !== job || row.seq !== null),
    clear: async (audience) => keep((row) => row.audience !== audience),
  };
}

function memoryAudit(read: () => MemoryData, write: (next: MemoryData) => void): Audit {
  const about = (subject?: string) =>
    subject === undefined
      ? read().audit
      : read().audit.filter((record) => record.subject === subject);

  return {
    async append(entry: AuditEntry) {
      const details = JSON.parse(JSON.stringify(entry.details)) as AuditEntry["details"];
      const record = appendAudit(headOf(read()), { ...entry, details });
      write({ ...read(), audit: [...read().audit, record] });
      return record;
    },
    head: async () => headOf(read()),
    after: async (seq, limit, subject) =>
      about(subject)
        .filter((record) => record.seq > seq)
        .slice(0, limit),
    newest: async (limit, { subject, before = Number.POSITIVE_INFINITY } = {}) =>
      about(subject)
        .filter((record) => record.seq < before)
        .slice(-limit)
        .reverse(),
  };
}

function headOf({ audit }: MemoryData): AuditHead {
  const record = audit.at(-1);
  return record ? { size: record.seq, head: record.hash } : EMPTY_CHAIN;
}
