// The link `exclave.v1`: every message between an agent and the server, with its schema. Control
// frames are JSON text; log data are binary frames. Unknown fields are ignored, so that a newer
// version of the other side can be understood; unknown message types are refused.

import {
  AgentId,
  ArtifactLine,
  Envelope,
  FAILURE_CODES,
  Health,
  JobId,
  ResultLine,
} from "@exclave/core";
import { z } from "zod";

export const LINK_PROTOCOL = "exclave.v1";
export const LINK_PATH = "/v1/link";
export const FRAME_BYTES_MAX = 256 * 1024;

const JobAttempt = z.object({ job: JobId, attempt: z.int().positive() });

// ---- agent → server, sequenced: records of the agent's journal ----

export const RejectCode = z.enum([
  "signature",
  "expired",
  "replayed",
  "wrong_install",
  "stale_attempt",
  "policy",
  "disk_full",
  "not_synced",
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
  /** Something the agent refused or noticed that no job of ours explains. */
  z.object({ type: z.literal("alarm"), at: z.int(), code: z.string(), because: z.string() }),
]);
export type AgentEvent = z.infer<typeof AgentEvent>;

// ---- server → agent, sequenced: rows of the outbox ----

export const ServerCommand = z.discriminatedUnion("type", [
  JobAttempt.extend({ type: z.literal("job_offer"), envelope: Envelope }),
  JobAttempt.extend({ type: z.literal("job_cancel"), graceMs: z.int().nonnegative() }),
]);
export type ServerCommand = z.infer<typeof ServerCommand>;

// ---- frames ----

export const OpenJob = JobAttempt.extend({
  state: z.enum(["accepted", "running", "ended"]),
  logOffset: z.int().nonnegative(),
});

export const AgentFrame = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("hello"),
    protos: z.array(z.int()),
    agent: AgentId,
    version: z.string(),
    platform: z.string(),
    runtime: z.string(),
    capabilities: z.array(z.string()),
    keyGeneration: z.int().positive(),
    bootId: z.string(),
    /** Highest server sequence durably journaled here. */
    downAcked: z.int().nonnegative(),
    /** Head of the agent's own sequence. */
    upHead: z.int().nonnegative(),
    /** Lowest own sequence still in the journal (all before were acknowledged). */
    upFrom: z.int().nonnegative(),
    /** Changes when the journal was lost, so that the server starts both sequences anew. */
    journalId: z.string(),
    jobs: z.array(OpenJob),
    clockMs: z.int(),
    /** Ed25519 by the agent's identity key over `helloBytes(nonce, agent, bootId)`. */
    proof: z.base64(),
  }),
  z.object({ type: z.literal("event"), seq: z.int().positive(), body: AgentEvent }),
  z.object({ type: z.literal("ack"), seq: z.int().nonnegative() }),
  z.object({ type: z.literal("resend"), from: z.int().positive() }),
  /** Asks for registry access for a job it is about to launch. Answered by `grant`. */
  z.object({
    type: z.literal("grant_want"),
    job: JobId,
    attempt: z.int().positive(),
    /** Where a build agent that asks to publish its images wants to push them. */
    repositories: z.array(z.string().max(255)).max(500).optional(),
  }),
  z.object({ type: z.literal("pong"), id: z.int() }),
]);
export type AgentFrame = z.infer<typeof AgentFrame>;

export const Grant = z.object({
  /** The vendor's registry as this agent reaches it. */
  registryUrl: z.url(),
  /** For a job: what the registry's token service takes for tokens of minutes, until the job ends. */
  credential: z.string().optional(),
  /** For images that are published: opens their repositories. */
  token: z.string().optional(),
  expiresAt: z.int(),
  /** For a build: where the uploaded source is read. */
  sourceUrl: z.url().optional(),
  sourceToken: z.string().optional(),
});
export type Grant = z.infer<typeof Grant>;

export const ServerFrame = z.discriminatedUnion("type", [
  /** First word on every connection: what the agent's proof must be over. */
  z.object({ type: z.literal("challenge"), nonce: z.string() }),
  z.object({
    type: z.literal("welcome"),
    proto: z.int(),
    sessionEpoch: z.int().positive(),
    serverTimeMs: z.int(),
    upAcked: z.int().nonnegative(),
    capabilities: z.array(z.string()),
    limits: z.object({ logCreditBytes: z.int(), frameBytes: z.int() }),
    pingMs: z.int().positive(),
    reconnectSpreadMs: z.int().nonnegative(),
    /** How much of each open job's log is durable at the server. */
    logs: z.array(JobAttempt.extend({ upTo: z.int().nonnegative() })),
    /** Latest head of the audit chain. */
    checkpoint: z.object({ size: z.int(), head: z.string() }).optional(),
  }),
  z.object({ type: z.literal("command"), seq: z.int().positive(), body: ServerCommand }),
  z.object({ type: z.literal("ack"), seq: z.int().nonnegative() }),
  z.object({ type: z.literal("resend"), from: z.int().positive() }),
  JobAttempt.extend({ type: z.literal("log_ack"), upTo: z.int().nonnegative() }),
  z.object({
    type: z.literal("grant"),
    job: JobId,
    attempt: z.int().positive(),
    grant: Grant.optional(),
    refused: z.string().optional(),
  }),
  z.object({ type: z.literal("ping"), id: z.int() }),
  z.object({
    type: z.literal("goaway"),
    code: z.string(),
    because: z.string(),
    retryAfterMs: z.int().nonnegative(),
    permanent: z.boolean().default(false),
  }),
]);
export type ServerFrame = z.infer<typeof ServerFrame>;

/** What an agent signs to prove, on this connection and no other, that it holds its key. */
export function helloBytes(nonce: string, agent: string, bootId: string): Uint8Array {
  return new TextEncoder().encode(`exclave.v1 hello\n${nonce}\n${agent}\n${bootId}`);
}

// ---- binary log frames ----

export interface LogFrame {
  readonly job: string;
  readonly attempt: number;
  readonly offset: number;
  readonly bytes: Uint8Array;
}

const LOG_FRAME = 1;

/** `u8 1 | u16 header length | header JSON | bytes`. */
export function encodeLogFrame({ job, attempt, offset, bytes }: LogFrame): Uint8Array {
  const header = new TextEncoder().encode(JSON.stringify({ job, attempt, offset }));
  const frame = new Uint8Array(3 + header.length + bytes.length);
  frame[0] = LOG_FRAME;
  new DataView(frame.buffer).setUint16(1, header.length);
  frame.set(header, 3);
  frame.set(bytes, 3 + header.length);
  return frame;
}

const LogHeader = z.object({
  job: JobId,
  attempt: z.int().positive(),
  offset: z.int().nonnegative(),
});

export function decodeLogFrame(frame: Uint8Array): LogFrame | undefined {
  if (frame.length < 3 || frame[0] !== LOG_FRAME) return undefined;
  const length = new DataView(frame.buffer, frame.byteOffset).getUint16(1);
  if (3 + length > frame.length) return undefined;
  try {
    const text = new TextDecoder().decode(frame.subarray(3, 3 + length));
    const header = LogHeader.safeParse(JSON.parse(text)).data;
    return header && { ...header, bytes: frame.subarray(3 + length) };
  } catch {
    return undefined;
  }
}
