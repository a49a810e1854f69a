// What an agent has to say, in its own durable sequence: a journal record each.

import {
  ArtifactLine,
  Effect,
  FAILURE_CODES,
  Health,
  JobId,
  JobReport,
  ResultLine,
} from "@exclave/core";
import { z } from "zod";

export const JobAttempt = z.object({ job: JobId, attempt: z.int().positive() });

export const RejectCode = z.enum([
  "signature",
  "expired",
  "replayed",
  "wrong_install",
  "stale_attempt",
  "policy",
  "disk_full",
  "not_synced",
  "rate_limited",
  "invalid",
]);

export type RejectCode = z.infer<typeof RejectCode>;

export const ReportedOutput = z.object({
  name: z.string(),
  sensitive: z.boolean(),
  /** Absent when sensitive: such values stay in the install. */
  value: z.unknown().optional(),
});

export const JobOutcome = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("succeeded") }),
  z.object({
    kind: z.literal("failed"),
    code: z.enum(FAILURE_CODES),
    message: z.string(),
  }),
  z.object({ kind: z.literal("cancelled") }),
  /** An at-most-once job whose end nobody saw. */
  z.object({ kind: z.literal("unknown"), because: z.string() }),
]);

export type JobOutcome = z.infer<typeof JobOutcome>;

/** More components than this in one install are not spoken of at once. */
export const LOOKS_MAX = 512;

export const AppliedComponent = z.object({
  component: z.string(),
  type: z.string(),
  release: z.string(),
  effect: Effect,
});

export type AppliedComponent = z.infer<typeof AppliedComponent>;

export const AgentEvent = z.discriminatedUnion("type", [
  JobAttempt.extend({ type: z.literal("job_accepted"), at: z.int() }),
  JobAttempt.extend({
    type: z.literal("job_rejected"),
    at: z.int(),
    code: RejectCode,
    because: z.string(),
  }),
  JobAttempt.extend({ type: z.literal("job_started"), at: z.int() }),
  JobAttempt.extend({
    type: z.literal("job_ended"),
    at: z.int(),
    outcome: JobOutcome,
    outputs: z.array(ReportedOutput).default([]),
    /** Over all outputs, sensitive ones too, keyed by a secret of the install: tells only "changed". */
    outputsDigest: z.string().optional(),
    artifacts: z.array(ArtifactLine).default([]),
    result: ResultLine.optional(),
    /** The resources it touched and how far it was, as it said so. */
    report: JobReport.optional(),
    logBytes: z.int().nonnegative(),
    logSha256: z.string(),
  }),
  /** A status the agent looked up on its own schedule. Sent when it differs from the last one. */
  z.object({
    type: z.literal("health"),
    at: z.int(),
    component: z.string(),
    health: Health,
    because: z.string(),
    drift: z.object({ found: z.boolean(), summary: z.string() }).optional(),
    /** Why it could not be looked up. */
    code: z.enum(FAILURE_CODES).optional(),
  }),
  /** The journal was lost or is new: what the agent found around it, and nothing is presumed. */
  z.object({
    type: z.literal("inventory"),
    at: z.int(),
    jobs: z.array(z.object({ job: z.string(), attempt: z.int(), state: z.string() })),
    /** What the agent applied last of each component it looks at, whatever the server remembers. */
    deployed: z.array(AppliedComponent).max(LOOKS_MAX).optional(),
    /** What the agent destroyed since, by component. */
    destroyed: z.array(z.string()).max(LOOKS_MAX).optional(),
    /** This agent has never lived before: nothing was ever applied where it is. */
    isNew: z.boolean().optional(),
  }),
  /** Images the build agent pushed at its start: the runner, the plugins, the sandboxes. */
  z.object({
    type: z.literal("images_published"),
    at: z.int(),
    images: z.array(
      z.object({
        name: z.string(),
        kind: z.enum(["runner", "plugin", "sandbox"]),
        repository: z.string(),
        digest: z.string(),
        descriptor: z.unknown().optional(),
      }),
    ),
  }),
  /** From now on this agent goes by that version of the trust document. */
  z.object({
    type: z.literal("trust_changed"),
    at: z.int(),
    version: z.int().positive(),
    digest: z.string().max(200),
  }),
  /** Something the agent refused or noticed that no job of ours explains. */
  z.object({ type: z.literal("alarm"), at: z.int(), code: z.string(), because: z.string() }),
]);

export type AgentEvent = z.infer<typeof AgentEvent>;
