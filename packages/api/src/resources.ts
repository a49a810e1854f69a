// What the API answers with: the nouns as people see them. These shapes are documented in
// docs/reference and kept stable; fields are added, never renamed.

import {
  AuditRecord,
  Envelope,
  FAILURE_CODES,
  Health,
  JOB_STATUSES,
  Operation,
  PluginDescriptor,
} from "@exclave/core";
import { z } from "zod";

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
  /** The install, or `build` / `setup` for the vendor's own agents. */
  install: z.string(),
  component: z.string().nullable(),
  state: JobStatus,
  attempt: z.int(),
  /** Set while the agent that holds the job is silent: the job may well be running. */
  unreachableSince: z.int().nullable(),
  release: z.string().nullable(),
  because: z.string(),
  requestedBy: z.string(),
  createdAt: z.int(),
  startedAt: z.int().nullable(),
  endedAt: z.int().nullable(),
  failure: z.object({ code: z.enum(FAILURE_CODES), message: z.string() }).nullable(),
  exitCode: z.int().nullable(),
  plan: z.object({ digest: z.string(), risk: z.string(), summary: z.string() }).nullable(),
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
});
export type HoldView = z.infer<typeof HoldView>;

export const InstallView = z.object({
  name: z.string(),
  app: z.string(),
  channel: z.string(),
  /** What is wanted now. */
  release: z.string().nullable(),
  version: z.string().nullable(),
  health: Health,
  phase: z.enum(["setting-up", "deploying", "settled", "held", "destroying", "destroyed"]),
  sandbox: z.string(),
  agent: z.object({
    id: z.string().nullable(),
    status: z.enum(["never", "online", "offline"]),
    since: z.int().nullable(),
  }),
  inputs: z.record(z.string(), z.unknown()),
  components: z.array(ComponentView),
  holds: z.array(HoldView),
  createdAt: z.int(),
});
export type InstallView = z.infer<typeof InstallView>;

export const ReleaseView = z.object({
  id: z.string(),
  app: z.string(),
  version: z.string(),
  state: z.enum(["building", "ready", "failed"]),
  digest: z.string().nullable(),
  signed: z.boolean(),
  /** The signed statement of what the release is, as a DSSE envelope; absent until it is ready. */
  statement: Envelope.optional(),
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
  createdAt: z.int(),
  requestedBy: z.string(),
});
export type ReleaseView = z.infer<typeof ReleaseView>;

export const ChannelView = z.object({
  app: z.string(),
  name: z.string(),
  release: z.string().nullable(),
  version: z.string().nullable(),
  movedAt: z.int(),
});
export type ChannelView = z.infer<typeof ChannelView>;

export const AgentView = z.object({
  id: z.string(),
  kind: z.enum(["build", "setup", "install"]),
  audience: z.string(),
  status: z.enum(["online", "offline"]),
  since: z.int(),
  version: z.string(),
  platform: z.string(),
  runtime: z.string(),
  openJobs: z.int(),
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
  createdAt: z.int(),
  expiresAt: z.int().nullable(),
  revokedAt: z.int().nullable(),
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
  at: z.int(),
  kind: z.enum(["job", "install", "release", "channel", "agent", "log"]),
  subject: z.string(),
  install: z.string().nullable(),
  component: z.string().nullable(),
  message: z.string(),
});
export type LiveEvent = z.infer<typeof LiveEvent>;
