// What the API answers with: the nouns as people see them. These shapes are documented in
// docs/reference and kept stable; fields are added, never renamed.

import {
  AuditRecord,
  FAILURE_CODES,
  Health,
  HealthSource,
  JOB_STATUSES,
  JobReport,
  Operation,
  PluginDescriptor,
} from "@exclave/core";
import { z } from "zod";

/** A moment in JSON: RFC 3339, in UTC. */
export const Time = z.iso.datetime();
export type Time = z.infer<typeof Time>;

export function timeOf(instant: number): Time;
export function timeOf(instant: number | null): Time | null;
export function timeOf(instant: number | null): Time | null {
  return instant === null ? null : new Date(instant).toISOString();
}

/** RFC 9457, with our closed code and, where a vendor's file is wrong, every place in it. */
export const Problem = z.object({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  code: z.enum(FAILURE_CODES),
  problems: z
    .array(
      z.object({
        file: z.string(),
        line: z.int(),
        column: z.int(),
        message: z.string(),
        hint: z.string().optional(),
      }),
    )
    .optional(),
});
export type Problem = z.infer<typeof Problem>;

export const JobStatus = z.enum(JOB_STATUSES);
export type JobStatus = z.infer<typeof JobStatus>;

export const JobView = z.object({
  id: z.string(),
  operation: Operation,
  /** The name of the install it is about; `build` for what the build agent does for all. */
  install: z.string(),
  installId: z.string().nullable(),
  component: z.string().nullable(),
  state: JobStatus,
  attempt: z.int(),
  /** Set while the agent that holds the job is silent: the job may well be running. */
  unreachableSince: Time.nullable(),
  release: z.string().nullable(),
  because: z.string(),
  requestedBy: z.string(),
  createdAt: Time,
  startedAt: Time.nullable(),
  endedAt: Time.nullable(),
  failure: z.object({ code: z.enum(FAILURE_CODES), message: z.string() }).nullable(),
  exitCode: z.int().nullable(),
  plan: z.object({ digest: z.string(), risk: z.string(), summary: z.string() }).nullable(),
  /** The resources it touched and how far it was, once it has ended. */
  report: JobReport.nullable(),
  logBytes: z.int(),
  logComplete: z.boolean(),
  manifestDigest: z.string().nullable(),
});
export type JobView = z.infer<typeof JobView>;

export const ComponentView = z.object({
  name: z.string(),
  type: z.string(),
  /** waiting: not there yet. deployed: as wanted. outdated: an older one is there. removed: no longer wanted, still there. */
  state: z.enum([
    "waiting",
    "syncing",
    "planning",
    "deploying",
    "deployed",
    "outdated",
    "failed",
    "removed",
    "destroying",
  ]),
  health: Health,
  healthBecause: z.string(),
  /** Since when its health is what it is; for `unknown`, since when nothing is known. */
  healthSince: Time.nullable(),
  /** When somebody last looked, and who: the agent by its schedule, or a job. */
  healthAt: Time.nullable(),
  healthSource: HealthSource.nullable(),
  drift: z.object({ found: z.boolean(), summary: z.string() }).nullable(),
  artifact: z.string().nullable(),
  wantedArtifact: z.string().nullable(),
  outputs: z.record(z.string(), z.unknown()),
  activeJob: z.string().nullable(),
  dependsOn: z.array(z.string()),
});
export type ComponentView = z.infer<typeof ComponentView>;

export const HoldView = z.object({
  component: z.string().nullable(),
  because: z.string(),
  endsWhen: z.string(),
  /** What a person types to end it, or to end it at once; null where it ends by itself. */
  command: z.string().nullable(),
});
export type HoldView = z.infer<typeof HoldView>;

/** Something people should know of although nothing waits for it. */
export const AlarmView = z.object({ at: Time, because: z.string() });
export type AlarmView = z.infer<typeof AlarmView>;

export const InstallView = z.object({
  id: z.string(),
  name: z.string(),
  app: z.string(),
  appId: z.string(),
  channel: z.string(),
  /** What is wanted now. */
  release: z.string().nullable(),
  version: z.string().nullable(),
  health: Health,
  phase: z.enum(["setting-up", "deploying", "settled", "held", "destroying", "destroyed"]),
  sandbox: z.string(),
  sandboxConfig: z.record(z.string(), z.unknown()),
  agent: z.object({
    id: z.string().nullable(),
    status: z.enum(["never", "online", "offline"]),
    since: Time.nullable(),
  }),
  inputs: z.record(z.string(), z.unknown()),
  components: z.array(ComponentView),
  holds: z.array(HoldView),
  alarms: z.array(AlarmView).default([]),
  createdAt: Time,
  /** In a list: when this was decided, null before it ever was. Otherwise it was decided for this answer. */
  asOf: Time.nullable().optional(),
});
export type InstallView = z.infer<typeof InstallView>;

export const ReleaseView = z.object({
  id: z.string(),
  app: z.string(),
  appId: z.string(),
  version: z.string(),
  state: z.enum(["building", "ready", "failed"]),
  digest: z.string().nullable(),
  /** Rises with every release of the app. */
  number: z.int(),
  /** Its signed statement lies beside its index in the registry. */
  signed: z.boolean(),
  channel: z.string().nullable(),
  because: z.string().nullable(),
  components: z.array(
    z.object({
      name: z.string(),
      type: z.string(),
      artifact: z.string().nullable(),
      reused: z.boolean(),
      job: z.string().nullable(),
    }),
  ),
  createdAt: Time,
  requestedBy: z.string(),
});
export type ReleaseView = z.infer<typeof ReleaseView>;

export const ChannelView = z.object({
  app: z.string(),
  appId: z.string(),
  name: z.string(),
  release: z.string().nullable(),
  version: z.string().nullable(),
  movedAt: Time,
});
export type ChannelView = z.infer<typeof ChannelView>;

export const AgentView = z.object({
  id: z.string(),
  kind: z.enum(["build", "setup", "install"]),
  /** The id of its install; `build` or `setup` for the vendor's own agents. */
  audience: z.string(),
  /** The name of its install. */
  install: z.string().nullable(),
  status: z.enum(["online", "offline"]),
  since: Time,
  version: z.string(),
  platform: z.string(),
  runtime: z.string(),
  openJobs: z.int(),
  /** Its key counts no more. */
  revokedAt: Time.nullable().optional(),
});
export type AgentView = z.infer<typeof AgentView>;

export const AuditView = AuditRecord;
export type AuditView = z.infer<typeof AuditView>;

export const Role = z.enum(["admin", "operator", "viewer"]);
export type Role = z.infer<typeof Role>;

export const TokenView = z.object({
  id: z.string(),
  name: z.string(),
  role: Role,
  createdAt: Time,
  expiresAt: Time.nullable(),
  revokedAt: Time.nullable(),
});
export type TokenView = z.infer<typeof TokenView>;

export const PluginView = z.object({
  type: z.string(),
  digest: z.string(),
  repository: z.string(),
  descriptor: PluginDescriptor,
});
export type PluginView = z.infer<typeof PluginView>;

/** What is live: a hint that something changed, with enough to show a line. Read the noun for the truth. */
export const LiveEvent = z.object({
  id: z.int(),
  at: Time,
  kind: z.enum(["job", "install", "release", "channel", "agent", "log"]),
  subject: z.string(),
  install: z.string().nullable(),
  installId: z.string().nullable(),
  component: z.string().nullable(),
  message: z.string(),
});
export type LiveEvent = z.infer<typeof LiveEvent>;
