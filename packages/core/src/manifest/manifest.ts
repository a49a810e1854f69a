// The signed document a job runs: what to do, with which bytes, for whom, until when, and who asked.
// It travels as a DSSE envelope; whoever verifies it parses exactly the bytes that were signed.

import { z } from "zod";
import { canonicalBytes } from "../encoding/canonical.ts";
import { utf8Bytes } from "../encoding/utf8.ts";
import {
  AppId,
  Audience,
  ComponentName,
  ComponentType,
  Digest,
  InstallId,
  InstallName,
  Instant,
  JobId,
} from "../ids.ts";
import { Limits } from "./job-limits.ts";

/** What an operation may do to the world if it is run again after a crash. */
export const Effect = z.enum(["idempotent", "fenced", "at-most-once"]);
export type Effect = z.infer<typeof Effect>;

/** `none`: the install's own registry alone. `outbound`: whatever the sandbox's network leads to. */
export const Network = z.enum(["none", "outbound"]);
export type Network = z.infer<typeof Network>;

/** Operations a plugin can offer. */
export const PluginOperation = z.enum([
  "build",
  "plan",
  "apply",
  "destroy",
  "status",
  "logs",
  "exec",
]);
export type PluginOperation = z.infer<typeof PluginOperation>;

/** Operations of jobs: the plugins', and two that the runner does by itself. */
export const Operation = z.enum([...PluginOperation.options, "sync", "assemble"]);
export type Operation = z.infer<typeof Operation>;

/** Content by digest, in a repository of whichever registry the job is given. */
export const ArtifactRef = z.object({ repository: z.string(), digest: Digest });
export type ArtifactRef = z.infer<typeof ArtifactRef>;

export const ManifestStep = z.object({
  operation: Operation,
  /** The image that runs: a plugin's, or the runner's own for sync and assemble. */
  plugin: ArtifactRef,
  /** Absent for sync and assemble, which are about a release and not one component. */
  component: ComponentName.optional(),
  type: ComponentType.optional(),
  /** The component's artifact; for build, the source; absent where there is none. */
  artifact: ArtifactRef.optional(),
  /** Configuration as the vendor wrote it, `${{ }}` unevaluated: values are made in the install. */
  config: z.record(z.string(), z.unknown()),
  /** What the operation itself needs: argv of exec, tail of logs, the plan's digest for apply, … */
  parameters: z.record(z.string(), z.unknown()).default({}),
  effect: Effect,
  /** Other content the step reads: what a sync copies, what an assemble lists. */
  materials: z.array(ArtifactRef.extend({ name: z.string() })).default([]),
  /** Indexes of releases: what the step does must be what their signed statements say. */
  releases: z.array(ArtifactRef).optional(),
});
export type ManifestStep = z.infer<typeof ManifestStep>;

/** A customer's generated secret: made in the install, kept there, never sent anywhere. */
export const GeneratedSecret = z.object({
  name: z.string(),
  bytes: z.int().min(8).max(1024),
  encoding: z.enum(["hex", "base64url"]),
});

export const Manifest = z.object({
  version: z.literal(1),
  id: JobId,
  attempt: z.int().positive(),
  audience: Audience,
  /** Rises with every manifest for this audience: an older one is a replay. */
  issueNo: z.int().positive(),
  operation: Operation,
  app: AppId.optional(),
  /** For a job of the setup agent: whose sandbox it is about. */
  install: z.object({ id: InstallId, name: InstallName }).optional(),
  /**
   * A setup: whose agent the job is to be handed a join string for. The string itself is in no
   * manifest: the setup agent asks for it when it launches the job.
   */
  joinFor: InstallId.optional(),
  release: z.string().optional(),
  /** Directs an older release than the install had: that release's statement has to allow it. */
  rollback: z.boolean().optional(),
  steps: z.array(ManifestStep).min(1),
  /** Values of the install's inputs, by name. */
  inputs: z.record(z.string(), z.unknown()).default({}),
  inputsDigest: Digest,
  generatedSecrets: z.array(GeneratedSecret).default([]),
  sealedSecrets: z.array(z.object({ name: z.string(), sealed: z.string() })).default([]),
  notBefore: Instant,
  notAfter: Instant,
  deadlineMs: z.int().positive(),
  limits: Limits.default({}),
  /** What the job may reach beside the install's own registry; a sync always reaches the vendor's. */
  network: Network.default("none"),
  /** After a successful apply the agent checks status this often by itself, also with no server. */
  statusEveryMs: z.int().positive().optional(),
  approval: z.unknown().optional(),
  requestedBy: z.string(),
  because: z.string(),
});
export type Manifest = z.infer<typeof Manifest>;

/** The longest a job may be given. Checked where it is issued and where it is taken. */
export const DEADLINE_MS_MAX = 7 * 24 * 60 * 60_000;

/** Why a job may not be given that long, in words; undefined if it may. */
export function refuseDeadline(deadlineMs: number): string | undefined {
  if (deadlineMs <= DEADLINE_MS_MAX) return undefined;
  const days = Math.ceil(deadlineMs / (24 * 60 * 60_000));
  return `its deadline is ${days} days away, and a job may have 7 at most`;
}

export const MANIFEST_PAYLOAD_TYPE = "application/vnd.exclave.manifest.v1+json";
/** On each entry of a release's index: the repository it belongs to, in whichever registry. */
export const REPOSITORY_ANNOTATION = "dev.exclave.repository";

/** DSSE: payload and signatures are base64; the payload is never re-encoded after signing. */
export const Envelope = z.object({
  payloadType: z.string(),
  payload: z.base64(),
  signatures: z
    .array(z.object({ keyid: z.string().max(128), sig: z.base64().max(1024) }))
    .min(1)
    .max(16),
});
export type Envelope = z.infer<typeof Envelope>;

export function manifestBytes(manifest: Manifest): Uint8Array {
  return canonicalBytes(manifest);
}

/** The bytes a DSSE signature is over: type and payload, each with its length, so neither can slide. */
export function preAuthEncoding(payloadType: string, payload: Uint8Array): Uint8Array {
  const head = utf8Bytes(
    `DSSEv1 ${utf8Bytes(payloadType).length} ${payloadType} ${payload.length} `,
  );
  const bytes = new Uint8Array(head.length + payload.length);
  bytes.set(head);
  bytes.set(payload, head.length);
  return bytes;
}
