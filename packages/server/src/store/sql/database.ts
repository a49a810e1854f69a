// The tables as queries see them, the same in every database that speaks SQL.

import type { Generated } from "kysely";

/** Word for word in the indexes and in the query: that is how a database knows that they fit. */
export const OPEN_JOBS = "state IN ('queued', 'offered', 'accepted', 'running')";

interface DocumentTable {
  readonly ordinal: Generated<number>;
  readonly key: string;
  readonly body: string;
}

export interface Database {
  readonly agents: DocumentTable;
  readonly agent_checkpoints: DocumentTable;
  readonly apps: DocumentTable;
  readonly joins: DocumentTable;
  readonly tokens: DocumentTable;
  readonly installs: DocumentTable;
  readonly shown_installs: DocumentTable;
  readonly components: DocumentTable;
  readonly jobs: DocumentTable;
  readonly releases: DocumentTable;
  readonly restatements: DocumentTable;
  readonly builds: DocumentTable;
  readonly channels: DocumentTable;
  readonly images: DocumentTable;
  readonly sources: DocumentTable;
  readonly trust: DocumentTable;
  readonly outbox: {
    readonly id: Generated<number> | number;
    readonly audience: string;
    readonly seq: number | null;
    readonly job: string;
    readonly body: string;
  };
  /** Of PostgreSQL: entries that are committed and have no place in the chain yet. */
  readonly audit_waiting: {
    readonly id: Generated<number>;
    readonly at: number;
    readonly actor: string;
    readonly action: string;
    readonly subject: string;
    readonly details: string;
  };
  readonly audit: {
    readonly seq: number;
    readonly at: number;
    readonly actor: string;
    readonly action: string;
    readonly subject: string;
    readonly details: string;
    readonly prev_hash: string;
    readonly hash: string;
  };
}
