// What the server remembers, noun by noun. A row that comes back from a database is unknown until
// the schema here has read it.

import { AgentKind, Role } from "@exclave/api";
import {
  AgentId,
  AppId,
  ArtifactRef,
  Audience,
  Deployed,
  Digest,
  Effect,
  Envelope,
  FAILURE_CODES,
  FailedAttempts,
  HEALTH_FIELDS,
  InstallId,
  Instant,
  JobId,
  JobReport,
  JobState,
  LastFailure,
  Operation,
  PluginDescriptor,
  PluginOperation,
  Risk,
} from "@exclave/core";
import { z } from "zod";

const Plan = z.object({ digest: Digest, risk: Risk, summary: z.string() });

/**
 * A command that waits for its agent. It is signed when it is sent, by whoever is director then: no
 * transaction waits for the signer, and a key that was replaced meanwhile changes nothing.
 */
export const OutboxCommand = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("job_offer"),
    job: JobId,
    attempt: z.int().positive(),
    /** The manifest, base64. */
    payload: z.base64(),
  }),
  z.object({
    type: z.literal("job_cancel"),
    job: JobId,
    attempt: z.int().positive(),
    graceMs: z.int().nonnegative(),
    requestedBy: z.string().optional(),
    because: z.string().optional(),
  }),
]);
export type OutboxCommand = z.infer<typeof OutboxCommand>;

/** One version of the trust document; every one is kept. */
export const TrustRow = z.object({
  version: z.int().positive(),
  digest: Digest,
  envelope: Envelope,
  at: Instant,
  by: z.string(),
});
export type TrustRow = z.infer<typeof TrustRow>;

/** Who may run jobs for an audience, how far both sequences got, and which connection counts. */
export const AgentRow = z.object({
  id: AgentId,
  kind: AgentKind,
  /** One agent per audience. */
  audience: Audience,
  /** The name of its install, for people to read. */
  installName: z.string().nullable(),
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
  /** Of the trust document it goes by, as it said itself. */
  trustVersion: z.int().nonnegative().default(0),
  /** How long the record was when the agent last saw a checkpoint of it, as it said at its last hello. */
  checkpointSize: z.int().nonnegative().optional(),
  journalId: z.string().nullable(),
  sessionEpoch: z.int().nonnegative(),
  /** Highest sequence of its events that is committed here. */
  upAcked: z.int().nonnegative(),
  /** Highest sequence given to a command for it. */
  downHead: z.int().nonnegative(),
  /** Highest command it has said is in its journal. */
  downAcked: z.int().nonnegative(),
  /** When this server last saw that one of the two had lost what the other relies on. */
  reset: z.object({ at: Instant, because: z.string() }).nullable().default(null),
  /** What it noticed last, one of a code. */
  alarms: z.array(z.object({ at: Instant, code: z.string(), because: z.string() })).default([]),
});
export type AgentRow = z.infer<typeof AgentRow>;

/** What an agent presented last of the record it was shown, as it was signed, newest last. */
export const AgentCheckpointsRow = z.object({
  agent: AgentId,
  at: Instant,
  checkpoints: z.array(Envelope),
});
export type AgentCheckpointsRow = z.infer<typeof AgentCheckpointsRow>;

export const JoinRow = z.object({
  /** sha256 of the secret; the secret itself is nowhere. */
  hash: z.string(),
  kind: AgentKind,
  audience: Audience,
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

/** Why a job exists, so that its end can be understood without looking anything else up. */
export const JobPurpose = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("build"), name: z.string(), buildKey: Digest, source: Digest }),
  z.object({ kind: z.literal("assemble"), buildKey: Digest }),
  z.object({ kind: z.literal("setup") }),
  /** Asks the sandbox how it is, because its agent is gone. */
  z.object({ kind: z.literal("sandbox-status") }),
  z.object({ kind: z.literal("teardown") }),
  z.object({ kind: z.literal("sync"), key: Digest, materials: z.array(ArtifactRef) }),
  z.object({ kind: z.literal("plan"), deployKey: Digest, type: z.string() }),
  z.object({ kind: z.literal("apply"), deployed: Deployed }),
  z.object({ kind: z.literal("destroy") }),
  z.object({ kind: z.literal("request") }),
]);
export type JobPurpose = z.infer<typeof JobPurpose>;

export const JobRow = z.object({
  id: JobId,
  attempt: z.int().positive(),
  audience: Audience,
  /** The install it is about, also when the setup agent runs it. */
  install: InstallId.nullable(),
  installName: z.string().nullable(),
  app: AppId.nullable(),
  component: z.string().nullable(),
  release: z.string().nullable(),
  operation: Operation,
  /** Whether it may be run again after a crash. */
  effect: Effect.default("idempotent"),
  state: JobState,
  purpose: JobPurpose,
  because: z.string(),
  requestedBy: z.string(),
  createdAt: Instant,
  startedAt: Instant.nullable(),
  endedAt: Instant.nullable(),
  failure: z.object({ code: z.enum(FAILURE_CODES), message: z.string() }).nullable(),
  exitCode: z.int().nullable(),
  plan: Plan.nullable(),
  report: JobReport.nullable().default(null),
  /** What the agent said the whole log is; null until the job has ended. */
  log: z.object({ bytes: z.int(), sha256: z.string() }).nullable(),
  logComplete: z.boolean(),
  manifestDigest: Digest,
  /** When the join string of this attempt was given: it is given once. */
  joinGivenAt: Instant.nullable().default(null),
  /** Everything the job may pull or push, for grants. */
  reads: z.array(ArtifactRef),
  writes: z.array(z.string()),
});
export type JobRow = z.infer<typeof JobRow>;

export const ComponentRow = z.object({
  install: InstallId,
  name: z.string(),
  type: z.string(),
  deployed: Deployed.nullable(),
  /** What an apply may have left that has not succeeded: set with its job, cleared by a success. */
  attempted: Deployed.nullable(),
  plan: Plan.extend({ deployKey: Digest, at: Instant }).nullable(),
  lastFailure: LastFailure.nullable(),
  ...HEALTH_FIELDS,
  repairs: z.object({ attempts: z.int().positive(), at: Instant }).nullable().default(null),
  /** Who asked for it to be applied again as it is. */
  applyAsked: z.string().nullable().default(null),
  outputs: z.record(z.string(), z.unknown()),
  outputsDigest: z.string().nullable(),
  /** When a status job was last issued because nobody looked at it. */
  watchAskedAt: Instant.nullable().default(null),
});
export type ComponentRow = z.infer<typeof ComponentRow>;

export const AppRow = z.object({
  id: AppId,
  /** One app at a time has it. */
  name: z.string(),
  createdAt: Instant,
});
export type AppRow = z.infer<typeof AppRow>;

export const InstallRow = z.object({
  id: InstallId,
  /** One install at a time has it; after a forget another may. */
  name: z.string(),
  app: AppId,
  appName: z.string(),
  channel: z.string(),
  /** Set when somebody asked for one release by name; the channel counts otherwise. */
  pinnedRelease: z.string().nullable(),
  sandbox: z.string(),
  /** What the sandbox's own plugin is told; the server reads nothing in it. */
  sandboxConfig: z.record(z.string(), z.unknown()),
  inputs: z.record(z.string(), z.unknown()),
  mode: z.enum(["present", "destroyed"]),
  /** attempted: a setup was begun, so there may be something to take down. */
  sandboxState: z.enum(["absent", "attempted", "present", "destroyed"]),
  sandboxFailure: FailedAttempts.nullable(),
  /** Why the setup is to run once more, although it was done before. */
  setupWanted: z.string().nullable().default(null),
  /** The last look at a sandbox whose agent was gone, and the setups that followed in a row. */
  sandboxLook: z.object({ at: Instant, setups: z.int().nonnegative() }).nullable().default(null),
  /** Components whose removal somebody asked for by name. */
  allowDestroy: z.array(z.string()),
  /** What lies in the install's own registry. */
  synced: z.array(ArtifactRef),
  /** The newest runner it has. */
  runner: ArtifactRef.nullable(),
  syncFailure: FailedAttempts.nullable(),
  /** Its agent runs something of a release this server has no record of. */
  unknownRelease: z
    .object({ release: z.string(), component: z.string(), at: Instant })
    .nullable()
    .default(null),
  /** The release its sandbox was set up from: its statement is what a teardown goes by. */
  setUpRelease: z.string().nullable().default(null),
  /** The highest release it was ever directed to, and how far back that one lets it go. */
  releaseFloor: z
    .object({ release: z.string(), number: z.int(), numberMin: z.int() })
    .nullable()
    .default(null),
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

/** A sandbox that an install of this release can be set up with. */
export const ReleaseSandbox = z.object({
  type: z.string(),
  image: ArtifactRef,
  effects: z.partialRecord(PluginOperation, Effect),
});
export type ReleaseSandbox = z.infer<typeof ReleaseSandbox>;

export const ReleaseRow = z.object({
  id: z.string(),
  app: AppId,
  appName: z.string(),
  version: z.string(),
  /** Rises with every release of the app. */
  number: z.int().positive(),
  state: z.enum(["building", "ready", "failed"]),
  file: z.string(),
  /** exclave.yaml as it was sent; parsed again where its value is needed. */
  config: z.string(),
  runner: ArtifactRef,
  plugins: z.array(ReleasePlugin),
  components: z.array(ReleaseComponent),
  channel: z.string().nullable(),
  assembleJob: JobId.nullable(),
  sandboxes: z.array(ReleaseSandbox),
  /** The job that attaches the signed statement to the index. */
  signJob: JobId.nullable().default(null),
  /** Ids of the keys that signed its statement; null where it was not written down. */
  signedBy: z.array(z.string()).nullable().default(null),
  /** Why it was not stated again after a key was revoked. */
  unsignedBecause: z.string().nullable().default(null),
  digest: Digest.nullable(),
  /** An install that has seen it may go back as far as this number; null until it is stated. */
  rollbackNumberMin: z.int().positive().nullable(),
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
  app: AppId,
  appName: z.string(),
  name: z.string(),
  release: z.string().nullable(),
  movedAt: Instant,
  /** When what it points at was asked for: a release asked for before does not move it back. */
  askedAt: Instant.default(Instant.parse(0)),
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
