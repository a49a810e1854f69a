// What the server remembers, noun by noun. A row that comes back from a database is unknown until
// the schema here has read it.

import { AgentKind, Role } from "@exclave/api";
import {
  AgentId,
  ArtifactRef,
  Digest,
  Effect,
  Envelope,
  FAILURE_CODES,
  GeneratedSecret,
  Health,
  Instant,
  JOB_STATUSES,
  JobId,
  type JobState,
  Operation,
  PluginDescriptor,
  Risk,
} from "@exclave/core";
import { z } from "zod";

const Drift = z.object({ found: z.boolean(), summary: z.string() });
const Plan = z.object({ digest: Digest, risk: Risk, summary: z.string() });

/** How often in a row something was tried in vain, and how it ended the last time. */
export const FailedAttempts = z.object({
  code: z.enum(FAILURE_CODES),
  message: z.string(),
  at: Instant,
  attempts: z.int().positive(),
  /** What was tried: a failure counts only against the same again. */
  key: Digest.optional(),
});
export type FailedAttempts = z.infer<typeof FailedAttempts>;

export const LastFailure = FailedAttempts.extend({
  operation: z.enum(["plan", "apply", "destroy"]),
});
export type LastFailure = z.infer<typeof LastFailure>;

/** Who may run jobs for an audience, how far both sequences got, and which connection counts. */
export const AgentRow = z.object({
  id: AgentId,
  kind: AgentKind,
  /** One agent per audience: an install's name, `build` or `setup`. */
  audience: z.string(),
  identityKey: z.string(),
  sealingKey: z.string(),
  keyGeneration: z.int().positive(),
  joinedAt: Instant,
  revokedAt: Instant.nullable(),
  version: z.string(),
  platform: z.string(),
  runtime: z.string(),
  /** When its connection was last seen to come or go. */
  seenAt: Instant,
  everConnected: z.boolean(),
  journalId: z.string().nullable(),
  sessionEpoch: z.int().nonnegative(),
  /** Highest sequence of its events that is committed here. */
  upAcked: z.int().nonnegative(),
  /** Highest sequence given to a command for it. */
  downHead: z.int().nonnegative(),
  /** Highest command it has said is in its journal. */
  downAcked: z.int().nonnegative(),
});
export type AgentRow = z.infer<typeof AgentRow>;

export const JoinRow = z.object({
  /** sha256 of the secret; the secret itself is nowhere. */
  hash: z.string(),
  kind: AgentKind,
  audience: z.string(),
  createdAt: Instant,
  expiresAt: Instant,
  usedAt: Instant.nullable(),
});
export type JoinRow = z.infer<typeof JoinRow>;

export const TokenRow = z.object({
  id: z.string(),
  name: z.string(),
  role: Role,
  hash: z.string(),
  createdAt: Instant,
  expiresAt: Instant.nullable(),
  revokedAt: Instant.nullable(),
});
export type TokenRow = z.infer<typeof TokenRow>;

/** What a destroy, a log request or a debug command needs to know of what is there. */
export const Deployed = z.object({
  deployKey: Digest,
  type: z.string(),
  plugin: ArtifactRef,
  artifact: ArtifactRef.optional(),
  config: z.record(z.string(), z.unknown()),
  inputs: z.record(z.string(), z.unknown()),
  generatedSecrets: z.array(GeneratedSecret),
  dependsOn: z.array(z.string()),
  effects: z.partialRecord(Operation, Effect),
  release: z.string(),
});
export type Deployed = z.infer<typeof Deployed>;

/** Why a job exists, so that its end can be understood without looking anything else up. */
export const JobAbout = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("build"), name: z.string(), buildKey: Digest, source: Digest }),
  z.object({ kind: z.literal("assemble"), buildKey: Digest }),
  z.object({ kind: z.literal("setup") }),
  z.object({ kind: z.literal("teardown") }),
  z.object({ kind: z.literal("sync"), key: Digest, materials: z.array(ArtifactRef) }),
  z.object({ kind: z.literal("plan"), deployKey: Digest, type: z.string() }),
  z.object({ kind: z.literal("apply"), deployed: Deployed }),
  z.object({ kind: z.literal("destroy") }),
  z.object({ kind: z.literal("request") }),
]);
export type JobAbout = z.infer<typeof JobAbout>;

/** The core owns the state machine; the status is checked, the rest was written by it. */
const State = z.looseObject({
  status: z.enum(JOB_STATUSES),
  since: Instant,
}) as unknown as z.ZodType<JobState>;

export const JobRow = z.object({
  id: JobId,
  attempt: z.int().positive(),
  audience: z.string(),
  install: z.string().nullable(),
  app: z.string().nullable(),
  component: z.string().nullable(),
  release: z.string().nullable(),
  operation: Operation,
  state: State,
  about: JobAbout,
  because: z.string(),
  requestedBy: z.string(),
  createdAt: Instant,
  startedAt: Instant.nullable(),
  endedAt: Instant.nullable(),
  failure: z.object({ code: z.enum(FAILURE_CODES), message: z.string() }).nullable(),
  exitCode: z.int().nullable(),
  plan: Plan.nullable(),
  /** What the agent said the whole log is; null until the job has ended. */
  log: z.object({ bytes: z.int(), sha256: z.string() }).nullable(),
  logComplete: z.boolean(),
  manifestDigest: Digest,
  /** Everything the job may pull or push, for grants. */
  reads: z.array(ArtifactRef),
  writes: z.array(z.string()),
});
export type JobRow = z.infer<typeof JobRow>;

export const ComponentRow = z.object({
  install: z.string(),
  name: z.string(),
  type: z.string(),
  deployed: Deployed.nullable(),
  /** What an apply may have left that has not succeeded: set with its job, cleared by a success. */
  attempted: Deployed.nullable(),
  plan: Plan.extend({ deployKey: Digest, at: Instant }).nullable(),
  lastFailure: LastFailure.nullable(),
  health: Health,
  healthBecause: z.string(),
  drift: Drift.nullable(),
  outputs: z.record(z.string(), z.unknown()),
  outputsDigest: z.string().nullable(),
});
export type ComponentRow = z.infer<typeof ComponentRow>;

export const InstallRow = z.object({
  name: z.string(),
  app: z.string(),
  channel: z.string(),
  /** Set when somebody asked for one release by name; the channel counts otherwise. */
  pinnedRelease: z.string().nullable(),
  sandbox: z.string(),
  directory: z.string(),
  inputs: z.record(z.string(), z.unknown()),
  mode: z.enum(["present", "destroyed"]),
  /** attempted: a setup was begun, so there may be something to take down. */
  sandboxState: z.enum(["absent", "attempted", "present", "destroyed"]),
  sandboxFailure: FailedAttempts.nullable(),
  /** Components whose removal somebody asked for by name. */
  allowDestroy: z.array(z.string()),
  /** What lies in the install's own registry. */
  synced: z.array(ArtifactRef),
  /** The newest runner it has. */
  runner: ArtifactRef.nullable(),
  syncFailure: FailedAttempts.nullable(),
  requestedBy: z.string(),
  /** Rises with every write: a decision is committed only against what it was decided on. */
  revision: z.int().nonnegative(),
  createdAt: Instant,
});
export type InstallRow = z.infer<typeof InstallRow>;

export const ReleasePlugin = z.object({
  type: z.string(),
  descriptor: PluginDescriptor,
  /** Absent until the vendor's own plugin is built. */
  plugin: ArtifactRef.nullable(),
  own: z.boolean(),
  source: Digest.nullable(),
  buildKey: Digest.nullable(),
  job: JobId.nullable(),
  reused: z.boolean(),
});
export type ReleasePlugin = z.infer<typeof ReleasePlugin>;

export const ReleaseComponent = z.object({
  name: z.string(),
  type: z.string(),
  source: Digest.nullable(),
  buildKey: Digest.nullable(),
  artifact: ArtifactRef.nullable(),
  job: JobId.nullable(),
  reused: z.boolean(),
});
export type ReleaseComponent = z.infer<typeof ReleaseComponent>;

export const ReleaseRow = z.object({
  id: z.string(),
  app: z.string(),
  version: z.string(),
  state: z.enum(["building", "ready", "failed"]),
  file: z.string(),
  /** exclave.yaml as it was sent; parsed again where its value is needed. */
  config: z.string(),
  runner: ArtifactRef,
  plugins: z.array(ReleasePlugin),
  components: z.array(ReleaseComponent),
  channel: z.string().nullable(),
  assembleJob: JobId.nullable(),
  /** The job that attaches the signature to the index. */
  signJob: JobId.nullable().default(null),
  digest: Digest.nullable(),
  /** The signed statement: which configuration, which artifacts, which plugins. */
  statement: Envelope.nullable(),
  because: z.string().nullable(),
  createdAt: Instant,
  requestedBy: z.string(),
});
export type ReleaseRow = z.infer<typeof ReleaseRow>;

/** A build that need not be made again. */
export const BuildRow = z.object({
  buildKey: Digest,
  artifact: ArtifactRef,
  /** Of its manifest, where the job said so. */
  sizeBytes: z.int().nonnegative().optional(),
  job: JobId,
  at: Instant,
});
export type BuildRow = z.infer<typeof BuildRow>;

export const ChannelRow = z.object({
  app: z.string(),
  name: z.string(),
  release: z.string().nullable(),
  movedAt: Instant,
});
export type ChannelRow = z.infer<typeof ChannelRow>;

export const ImageRow = z.object({
  name: z.string(),
  kind: z.enum(["runner", "plugin", "sandbox"]),
  repository: z.string(),
  digest: Digest,
  descriptor: PluginDescriptor.nullable(),
  publishedAt: Instant,
});
export type ImageRow = z.infer<typeof ImageRow>;

export const SourceRow = z.object({
  digest: Digest,
  sizeBytes: z.int().nonnegative(),
  uploadedAt: Instant,
});
export type SourceRow = z.infer<typeof SourceRow>;
