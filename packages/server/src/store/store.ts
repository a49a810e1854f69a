// The server's memory as ports, one per noun. Everything is asynchronous, so that a database in
// another process can stand behind it; `testing/describe-store.ts` holds the promises as tests.

import type { ServerCommand } from "@exclave/api";
import type { AuditEntry, AuditHead, AuditRecord } from "@exclave/core";
import type {
  AgentRow,
  BuildRow,
  ChannelRow,
  ComponentRow,
  ImageRow,
  InstallRow,
  JobRow,
  JoinRow,
  ReleaseRow,
  SourceRow,
  TokenRow,
} from "./rows.ts";

export interface Store {
  /** Reads outside any transaction: each sees the last committed state. */
  readonly read: Readers;

  /**
   * All or nothing, and durable before it returns. Transactions do not overlap. When `work` throws,
   * nothing of it happened.
   */
  transaction<Result>(work: (tx: Tables) => Promise<Result>): Promise<Result>;

  close(): Promise<void>;
}

export interface Page {
  readonly limit: number;
  readonly cursor?: string | undefined;
}
export interface PageOf<Row> {
  readonly items: readonly Row[];
  /** Where the next page begins; null after the last. */
  readonly next: string | null;
}

export interface Tables {
  readonly agents: Documents<AgentRow> & {
    byAudience(audience: string): Promise<AgentRow | undefined>;
  };
  readonly joins: Documents<JoinRow>;
  readonly tokens: Documents<TokenRow> & { byHash(hash: string): Promise<TokenRow | undefined> };
  readonly installs: Documents<InstallRow>;
  readonly components: Documents<ComponentRow> & {
    ofInstall(install: string): Promise<ComponentRow[]>;
  };
  readonly jobs: Documents<JobRow> & {
    /** Not over yet, oldest first. */
    open(audience: string): Promise<JobRow[]>;
    find(query: JobQuery): Promise<PageOf<JobRow>>;
  };
  readonly outbox: Outbox;
  readonly releases: Documents<ReleaseRow> & {
    building(): Promise<ReleaseRow[]>;
    ofApp(app: string | undefined, page: Page): Promise<PageOf<ReleaseRow>>;
    byVersion(app: string, version: string): Promise<ReleaseRow | undefined>;
    count(app: string): Promise<number>;
  };
  readonly builds: Documents<BuildRow>;
  readonly channels: Documents<ChannelRow> & {
    of(app: string, name: string): Promise<ChannelRow | undefined>;
  };
  readonly images: Documents<ImageRow> & { ofKind(kind: ImageRow["kind"]): Promise<ImageRow[]> };
  readonly sources: Documents<SourceRow>;
  readonly audit: Audit;
  /** Rises by one each time, per audience: the number a manifest is issued under. */
  nextIssueNo(audience: string): Promise<number>;
}

export type Readers = Omit<Tables, "nextIssueNo">;

/** Rows by key. The key is a function of the row and never changes. */
export interface Documents<Row> {
  get(key: string): Promise<Row | undefined>;
  /** Writes the row, new or not. */
  put(row: Row): Promise<void>;
  /** Whether there was one. */
  remove(key: string): Promise<boolean>;
  /** Newest first. */
  list(page: Page): Promise<PageOf<Row>>;
  /** Oldest first, all of them: for the few nouns that stay few. */
  all(): Promise<Row[]>;
}

export interface JobQuery extends Page {
  readonly install?: string | undefined;
  readonly component?: string | undefined;
  readonly state?: string | undefined;
  readonly release?: string | undefined;
}

export interface OutboxRow {
  readonly id: number;
  readonly audience: string;
  /** Null until it is first about to be sent: what was never sent can still be taken back. */
  readonly seq: number | null;
  readonly job: string;
  readonly body: ServerCommand;
}

/** Commands on their way to an agent, in order, until it has them in its journal. */
export interface Outbox {
  add(audience: string, body: ServerCommand): Promise<void>;
  /** Rows with a sequence, lowest first. */
  sent(audience: string): Promise<OutboxRow[]>;
  /** Rows without one, oldest first. */
  waiting(audience: string, limit: number): Promise<OutboxRow[]>;
  assign(id: number, seq: number): Promise<void>;
  /** Drops every row up to that sequence. */
  trim(audience: string, seq: number): Promise<void>;
  /** Takes back what was never sent about a job. */
  withdraw(job: string): Promise<void>;
  clear(audience: string): Promise<void>;
}

export interface Audit {
  /** Adds a record that holds the hash of the one before it. */
  append(entry: AuditEntry): Promise<AuditRecord>;
  head(): Promise<AuditHead>;
  /** Oldest first, after that sequence. */
  after(seq: number, limit: number, subject?: string): Promise<AuditRecord[]>;
  /** Newest first. */
  newest(limit: number, subject?: string): Promise<AuditRecord[]>;
}

export const componentKey = (install: string, name: string): string => `${install}/${name}`;
export const channelKey = (app: string, name: string): string => `${app}/${name}`;
