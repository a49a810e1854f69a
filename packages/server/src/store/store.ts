// The server's memory as ports, one per noun. Everything is asynchronous, so that a database in
// another process can stand behind it; `testing/describe-store.ts` holds the promises as tests.

import type { AppId, Audience, AuditEntry, AuditHead, AuditRecord, InstallId } from "@exclave/core";
import type {
  AgentCheckpointsRow,
  AgentRow,
  AppRow,
  BuildRow,
  ChannelRow,
  ComponentRow,
  ImageRow,
  InstallRow,
  JobRow,
  JoinRow,
  OutboxCommand,
  ReleaseRow,
  RestatementRow,
  ShownInstallRow,
  SourceRow,
  TokenRow,
  TrustRow,
} from "./rows.ts";

export interface Store {
  /** Reads outside any transaction: each sees the last committed state. */
  readonly read: Readers;

  /**
   * All or nothing, and durable before it returns. It ends as if no other had run beside it; for that
   * `work` may run again, and what it did before then did not happen. When `work` throws, nothing of it happened.
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
    byAudience(audience: Audience): Promise<AgentRow | undefined>;
  };
  /** By agent. */
  readonly agentCheckpoints: Documents<AgentCheckpointsRow>;
  readonly joins: Documents<JoinRow>;
  readonly tokens: Documents<TokenRow> & { byHash(hash: string): Promise<TokenRow | undefined> };
  /** By id; no two have the same name. */
  readonly apps: Documents<AppRow> & { byName(name: string): Promise<AppRow | undefined> };
  readonly installs: Documents<InstallRow> & {
    byName(name: string): Promise<InstallRow | undefined>;
  };
  /** By install. */
  readonly shownInstalls: Documents<ShownInstallRow>;
  readonly components: Documents<ComponentRow> & {
    ofInstall(install: InstallId): Promise<ComponentRow[]>;
  };
  readonly jobs: Documents<JobRow> & {
    /** Those of an agent that are not over yet, oldest first. */
    open(audience: Audience): Promise<JobRow[]>;
    /** Those about an install that are not over yet, the setup agent's too, oldest first. */
    openOfInstall(install: InstallId): Promise<JobRow[]>;
    find(query: JobQuery): Promise<PageOf<JobRow>>;
  };
  readonly outbox: Outbox;
  readonly releases: Documents<ReleaseRow> & {
    building(): Promise<ReleaseRow[]>;
    ofApp(app: AppId | undefined, page: Page): Promise<PageOf<ReleaseRow>>;
    byVersion(app: AppId, version: string): Promise<ReleaseRow | undefined>;
    count(app: AppId): Promise<number>;
  };
  /** By release. */
  readonly restatements: Documents<RestatementRow>;
  readonly builds: Documents<BuildRow>;
  readonly channels: Documents<ChannelRow> & {
    of(app: AppId, name: string): Promise<ChannelRow | undefined>;
  };
  readonly images: Documents<ImageRow> & { ofKind(kind: ImageRow["kind"]): Promise<ImageRow[]> };
  readonly sources: Documents<SourceRow>;
  /** By version. */
  readonly trust: Documents<TrustRow>;
  readonly audit: Audit;
  /** Rises by one each time, per audience: the number a manifest is issued under. */
  nextIssueNo(audience: Audience): Promise<number>;
  /** Makes the next number greater than this one; returns the last one given before. */
  raiseIssueNo(audience: Audience, atLeast: number): Promise<number>;
}

export type Readers = Omit<Tables, "nextIssueNo" | "raiseIssueNo">;

/** Rows by key. The key is a function of the row and never changes. */
export interface Documents<Row> {
  get(key: string): Promise<Row | undefined>;
  /** Writes the row, new or not. */
  put(row: Row): Promise<void>;
  /** Whether there was one. */
  remove(key: string): Promise<boolean>;
  /** Newest first. */
  list(page: Page): Promise<PageOf<Row>>;
  /** Oldest first, a page of them. */
  oldest(page: Page): Promise<PageOf<Row>>;
  /** Oldest first, a page of their keys: of many rows of which nothing else is wanted. */
  keys(page: Page): Promise<PageOf<string>>;
  /** Oldest first, all of them: for the few nouns that stay few. */
  all(): Promise<Row[]>;
}

export interface JobQuery extends Page {
  readonly install?: InstallId | undefined;
  readonly audience?: Audience | undefined;
  readonly component?: string | undefined;
  readonly state?: string | undefined;
  readonly release?: string | undefined;
}

export interface OutboxRow {
  readonly id: number;
  readonly audience: Audience;
  /** Null until it is first about to be sent: what was never sent can still be taken back. */
  readonly seq: number | null;
  readonly job: string;
  readonly body: OutboxCommand;
}

/** Commands on their way to an agent, in order, until it has them in its journal. */
export interface Outbox {
  add(audience: Audience, body: OutboxCommand): Promise<void>;
  /** Rows with a sequence, lowest first. */
  sent(audience: Audience): Promise<OutboxRow[]>;
  /** Rows without one, oldest first. */
  waiting(audience: Audience, limit: number): Promise<OutboxRow[]>;
  assign(id: number, seq: number): Promise<void>;
  /** Puts another command in the place of one, under the same number. */
  replace(id: number, body: OutboxCommand): Promise<void>;
  /** Drops every row up to that sequence. */
  trim(audience: Audience, seq: number): Promise<void>;
  /** Takes back what was never sent about a job. */
  withdraw(job: string): Promise<void>;
  clear(audience: Audience): Promise<void>;
}

export interface NewestOf {
  readonly subject?: string | undefined;
  readonly before?: number | undefined;
}

export interface Audit {
  /** Adds a record. Whoever reads the record later finds that it holds the hash of the one before it. */
  append(entry: AuditEntry): Promise<void>;
  head(): Promise<AuditHead>;
  /** Oldest first, after that sequence. */
  after(seq: number, limit: number, subject?: string): Promise<AuditRecord[]>;
  /** Newest first, of those before that sequence if one is given. */
  newest(limit: number, of?: NewestOf): Promise<AuditRecord[]>;
}

export const componentKey = (install: InstallId, name: string): string => `${install}/${name}`;
export const channelKey = (app: AppId, name: string): string => `${app}/${name}`;
