// What the server's parts are made with. `server.ts` makes each of them once.

import type { AppConfig, AuditEntry, Instant } from "@exclave/core";
import type { Logger } from "pino";
import type { JobLogs } from "./job-logs.ts";
import type { Keys } from "./keys.ts";
import type { LiveEvents } from "./live-events.ts";
import type { ReleaseRow } from "./store/rows.ts";
import type { Store, Tables } from "./store/store.ts";

export interface ServerContext {
  readonly store: Store;
  readonly keys: Keys;
  readonly logs: JobLogs;
  readonly live: LiveEvents;
  readonly uploads: string;
  /** The checked configuration of a release. */
  readonly readApp: (release: ReleaseRow) => AppConfig;
  /** Where agents and people reach this server. */
  readonly publicUrl: () => string;
  /** Where the local sandbox puts an install that names no directory of its own. */
  readonly installsDirectory: string;
  readonly now: () => Instant;
  readonly startedAt: Instant;
  readonly version: string;
  readonly log: Logger;
  /** Who is connected now. */
  readonly presence: Presence;
  /** Asks the loops to look again; never fails and never waits. */
  readonly wake: Wake;
}

export interface Presence {
  isOnline(audience: string): boolean;
}

export interface Wake {
  install(name: string): void;
  allInstalls(): void;
  releases(): void;
  /** Something is in the outbox for that audience. */
  outbox(audience: string): void;
}

/** Everything a person or program asked for goes on record in the transaction that does it. */
export function audit(
  tx: Tables,
  { now }: Pick<ServerContext, "now">,
  entry: Omit<AuditEntry, "at">,
): Promise<unknown> {
  return tx.audit.append({ at: now(), ...entry });
}
