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
  let draft = createDraft(disk.data);
  const drafted = tablesOver(
    () => draft.data,
    () => draft,
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
    const mine = createDraft(disk.data);
    draft = mine;
    const result = await work(drafted);
    await beforeCommit?.();
    disk.data = mine.data;
    return result;
  }
}

function refuseToWrite(): never {
  throw new TypeError("a reader does not write");
}

/** A transaction's own data: each part of it is copied when it is first changed, and then no more. */
interface Draft {
  readonly data: MemoryData;
  rowsOf(table: NounTable): Map<string, MemoryRow>;
  audit(): AuditRecord[];
  issues(): Map<string, number>;
  change(part: Partial<Pick<MemoryData, "outbox" | "outboxHead" | "ordinal">>): void;
}

function createDraft(from: MemoryData): Draft {
  const data = { ...from };
  const nouns = new Map<NounTable, Map<string, MemoryRow>>();
  let audit: AuditRecord[] | undefined;
  let issues: Map<string, number> | undefined;

  return {
    data,
    rowsOf(table) {
      const known = nouns.get(table);
      if (known) return known;
      const copy = new Map(from.nouns.get(table));
      nouns.set(table, copy);
      data.nouns = new Map(data.nouns).set(table, copy);
      return copy;
    },
    audit() {
      audit ??= [...from.audit];
      data.audit = audit;
      return audit;
    },
    issues() {
      issues ??= new Map(from.issues);
      data.issues = issues;
      return issues;
    },
    change: (part) => void Object.assign(data, part),
  };
}

function tablesOver(read: () => MemoryData, draft: () => Draft, isTrusted = false): Tables {
  return createTables({
    documents: (table, schema, columnsOf) =>
      createMemoryDocuments(memoryTable(table, read, draft), schema, columnsOf, { isTrusted }),
    outbox: memoryOutbox(read, draft),
    audit: memoryAudit(read, draft),
    async nextIssueNo(audience) {
      const number = (read().issues.get(audience) ?? 0) + 1;
      draft().issues().set(audience, number);
      return number;
    },
    async raiseIssueNo(audience, atLeast) {
      const before = read().issues.get(audience) ?? 0;
      if (before < atLeast) draft().issues().set(audience, atLeast);
      return before;
    },
  });
}

function memoryTable(table: NounTable, read: () => MemoryData, draft: () => Draft): MemoryTable {
  const rows = () => read().nouns.get(table) ?? NO_ROWS;

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
      draft()
        .rowsOf(table)
        .set(key, { ...row, ordinal });
      draft().change({ ordinal: Math.max(read().ordinal, ordinal) });
    },
    remove: (key) => rows().has(key) && draft().rowsOf(table).delete(key),
    rows: () => rows().values(),
  };
}

const NO_ROWS: ReadonlyMap<string, MemoryRow> = new Map();

function memoryOutbox(read: () => MemoryData, draft: () => Draft): Outbox {
  const of = (audience: string) => read().outbox.filter((row) => row.audience === audience);
  const keep = (isKept: (row: OutboxRow) => boolean) =>
    draft().change({ outbox: read().outbox.filter(isKept) });

  return {
    async add(audience, body) {
      const id = read().outboxHead + 1;
      const row: OutboxRow = { id, audience, seq: null, job: body.job, body };
      draft().change({ outbox: [...read().outbox, row], outboxHead: id });
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
      draft().change({ outbox });
    },
    async replace(id, body) {
      const outbox = read().outbox.map((row) =>
        row.id === id ? { ...row, job: body.job, body } : row,
      );
      draft().change({ outbox });
    },
    async trim(audience, upTo) {
      keep(({ audience: whose, seq }) => whose !== audience || seq === null || seq > upTo);
    },
    withdraw: async (job) => keep((row) => row.job !== job || row.seq !== null),
    clear: async (audience) => keep((row) => row.audience !== audience),
  };
}

function memoryAudit(read: () => MemoryData, draft: () => Draft): Audit {
  const about = (subject?: string) =>
    subject === undefined
      ? read().audit
      : read().audit.filter((record) => record.subject === subject);

  return {
    async append(entry: AuditEntry) {
      const details = JSON.parse(JSON.stringify(entry.details)) as AuditEntry["details"];
      const record = appendAudit(headOf(read()), { ...entry, details });
      draft().audit().push(record);
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
