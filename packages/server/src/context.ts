// What the server's parts are made with. `server.ts` makes each of them once.

import type { AppConfig, Audience, AuditEntry, InstallId, Instant } from "@exclave/core";
import type { ContentStore } from "@exclave/oci";
import type { Logger } from "pino";
import type { FailedLogins } from "./access/failed-logins.ts";
import type { Repeats } from "./access/repeats.ts";
import type { AgentCheckpoints } from "./audit/agent-checkpoints.ts";
import type { Checkpoints } from "./audit/checkpoints.ts";
import type { SourceArchives } from "./content/source-archives.ts";
import type { ShownInstalls } from "./install/shown-installs.ts";
import type { Followers } from "./job/followers.ts";
import type { JobLogs } from "./job/job-logs.ts";
import type { Keys } from "./keys.ts";
import type { LiveEvents } from "./live-events.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Peers } from "./peers/peers.ts";
import type { AppChecker } from "./release/app-checker.ts";
import type { ReleaseRow } from "./store/rows.ts";
import type { Store, Tables } from "./store/store.ts";
import type { AgentCertificates } from "./tls/agent-certificates.ts";
import type { ListenerAuthority } from "./tls/open-listener.ts";
import type { Traces } from "./traces/traces.ts";
import type { Trust } from "./trust/trust.ts";

export interface ServerContext {
  readonly store: Store;
  readonly keys: Keys;
  /** The trust document, and signatures under it. */
  readonly trust: Trust;
  /** What lies in the vendor's registry. */
  readonly vendorContent: Pick<ContentStore, "readManifest">;
  /** Signed words about the record. */
  readonly checkpoints: Checkpoints;
  /** What agents present of the record they were shown. */
  readonly agentCheckpoints: AgentCheckpoints;
  readonly logs: JobLogs;
  /** What lists show of installs. */
  readonly shown: ShownInstalls;
  readonly live: LiveEvents;
  readonly metrics: Metrics;
  readonly traces: Traces;
  readonly followers: Followers;
  /** What comes often goes on record as one row with a number. */
  readonly repeats: Repeats;
  readonly failedLogins: FailedLogins;
  readonly sources: SourceArchives;
  /** Checks what somebody wrote, outside the event loop. */
  readonly apps: AppChecker;
  /** The checked configuration of a release. */
  readonly readApp: (release: ReleaseRow) => AppConfig;
  /** Where agents and people reach this server. */
  readonly publicUrl: () => string;
  /** Of the authority whose certificates this server shows; undefined where nothing is to be pinned. */
  readonly caFingerprint: () => string | undefined;
  /** What agents show of themselves on the link; undefined where this server speaks plain HTTP. */
  readonly certificates?: AgentCertificates | undefined;
  /** Who issues them, and how it is replaced. */
  readonly authority?: ListenerAuthority | undefined;
  readonly now: () => Instant;
  readonly startedAt: Instant;
  readonly version: string;
  readonly log: Logger;
  /** Who is connected now. */
  readonly presence: Presence;
  /** The servers that share the database, this one among them. */
  readonly peers: Peers;
  /** Asks the loops to reconcile; never fails and never waits. */
  readonly wake: Wake;
}

export interface Presence {
  isOnline(audience: Audience): boolean;
  /** What its connection says of the looks it takes; undefined while it is away. */
  watchOf(audience: Audience): AgentWatch | undefined;
}

/** Kept in memory alone: a look that finds nothing new costs no write. */
export interface AgentWatch {
  readonly since: Instant;
  /** When it last looked at a component, by this server's clock. */
  readonly looks: Pick<ReadonlyMap<string, Instant>, "get">;
}

export interface Wake {
  install(id: InstallId): void;
  allInstalls(): void;
  releases(): void;
  /** Something is in the outbox for that audience. */
  outbox(audience: Audience): void;
  /** That audience's agent was revoked: its connection is to end. */
  revoked(audience: Audience): void;
}

/** Everything a person or program asked for goes on record in the transaction that does it. */
export function audit(
  tx: Tables,
  { now }: Pick<ServerContext, "now">,
  entry: Omit<AuditEntry, "at">,
): Promise<unknown> {
  return tx.audit.append({ at: now(), ...entry });
}
