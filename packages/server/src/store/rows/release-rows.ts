// Releases and what they are made of.

import {
  AppId,
  ArtifactRef,
  Digest,
  Effect,
  Instant,
  JobId,
  PluginDescriptor,
  PluginOperation,
} from "@exclave/core";
import { z } from "zod";
import { Trace } from "../../traces/trace-context.ts";

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
  /** Of the request that asked for it. */
  trace: Trace.nullable().default(null),
});

export type ReleaseRow = z.infer<typeof ReleaseRow>;

/** A release whose statement counts no more: to be stated again. */
export const RestatementRow = z.object({ release: z.string() });
export type RestatementRow = z.infer<typeof RestatementRow>;

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
