// Jobs, and the commands that carry them to their agents.

import {
  AppId,
  ArtifactRef,
  Audience,
  Deployed,
  Digest,
  Effect,
  FAILURE_CODES,
  InstallId,
  Instant,
  JobId,
  JobReport,
  JobState,
  Operation,
  Risk,
} from "@exclave/core";
import { z } from "zod";
import { Trace } from "../../traces/trace-context.ts";

export const Plan = z.object({ digest: Digest, risk: Risk, summary: z.string() });

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
  /** Of the request it came of. */
  trace: Trace.nullable().default(null),
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
