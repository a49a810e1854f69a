// The link `exclave.v1`: every message between an agent and the server, with its schema. Control
// frames are JSON text; log data are binary frames. Unknown fields are ignored, so that a newer
// version of the other side can be understood; unknown message types are refused.

import {
  AgentId,
  ArtifactLine,
  CHECKPOINTS_MAX,
  Effect,
  Envelope,
  FAILURE_CODES,
  Health,
  JobId,
  JobReport,
  ResultLine,
} from "@exclave/core";
import { z } from "zod";
import { CHECKPOINTS_PRESENTED_MAX, FRAME_BYTES_MAX, HELLO_JOBS_MAX } from "./link-limits.ts";

export const LINK_PROTOCOL = "exclave.v1";
export const LINK_PATH = "/v1/link";

/** What an agent says of itself: it is kept, shown and on record. */
const Word = z.string().max(200);

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

// ---- server → agent, sequenced: rows of the outbox ----

export const ServerCommand = z.discriminatedUnion("type", [
  JobAttempt.extend({ type: z.literal("job_offer"), envelope: Envelope }),
  /** What counts is in the envelope; one without is read, so that it can be refused on record. */
  JobAttempt.extend({
    type: z.literal("job_cancel"),
    envelope: Envelope.optional(),
    graceMs: z.int().nonnegative().optional(),
  }),
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
    protos: z.array(z.int()).max(100),
    agent: AgentId,
    version: Word,
    platform: Word,
    runtime: Word,
    capabilities: z.array(Word).max(100),
    keyGeneration: z.int().positive(),
    bootId: Word,
    /** Highest server sequence durably journaled here. */
    downAcked: z.int().nonnegative(),
    /** Head of the agent's own sequence. */
    upHead: z.int().nonnegative(),
    /** Lowest own sequence still in the journal (all before were acknowledged). */
    upFrom: z.int().nonnegative(),
    /** Which version of the trust document this agent goes by; the server sends what follows it. */
    trustVersion: z.int().nonnegative().optional(),
    /** How long the server's record was at the checkpoints this agent keeps; not what they say. */
    checkpointSizes: z.array(z.int().nonnegative()).max(CHECKPOINTS_MAX).optional(),
    /** Changes when the journal was lost, so that the server starts both sequences anew. */
    journalId: Word,
    /** Highest number of a manifest it accepted: a server set back has to number above it. */
    issueNo: z.int().nonnegative().optional(),
    jobs: z.array(OpenJob).max(HELLO_JOBS_MAX * 2),
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
  /** Asks for the join string that a setup it is about to launch hands on. Answered by `join`. */
  JobAttempt.extend({ type: z.literal("join_want") }),
  /** What it kept of the server's record, as it was signed, newest last. Answers `checkpoints_want`. */
  z.object({
    type: z.literal("checkpoints"),
    list: z.array(Envelope).max(CHECKPOINTS_PRESENTED_MAX),
  }),
  z.object({
    type: z.literal("pong"),
    id: z.int(),
    /** Components the agent looks at by itself, and how long ago it last did. */
    looks: z
      .array(z.object({ component: Word, agoMs: z.int().nonnegative() }))
      .max(LOOKS_MAX)
      .optional(),
  }),
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
    /** The server was set back: it asks for an inventory after the events it has not got yet. */
    inventoryWanted: z.boolean().optional(),
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
  /** Given once for an attempt, and written down by neither side. */
  JobAttempt.extend({
    type: z.literal("join"),
    joinString: z.string().optional(),
    refused: z.string().optional(),
  }),
  /** A next version of the trust document, one frame each, in order, before whatever it is needed for. */
  z.object({ type: z.literal("trust"), envelope: Envelope }),
  /**
   * A signed checkpoint of the server's record, with the heads it had at the sizes the agent named, or
   * at the one shown last. The first comes before any command.
   */
  z.object({
    type: z.literal("checkpoint"),
    envelope: Envelope,
    heads: z
      .array(z.object({ size: z.int().nonnegative(), head: z.string().max(64) }))
      .max(CHECKPOINTS_MAX),
  }),
  /** Asks for the checkpoints the agent kept. It answers once the server has shown its own. */
  z.object({ type: z.literal("checkpoints_want") }),
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

/** A command an agent cannot read: of a later version, too large, or nonsense. It is refused by an event. */
export interface UnreadableCommand {
  readonly type: "unreadable_command";
  readonly seq: number;
  readonly about?: z.infer<typeof JobAttempt> | undefined;
  readonly because: string;
}

const AnyCommand = z.object({
  type: z.literal("command"),
  seq: z.int().positive(),
  body: z.unknown(),
});

/** What a frame of the server says, as far as it can be read; nothing for what is no frame. */
export function readServerFrame(text: string): ServerFrame | UnreadableCommand | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const isTooLarge = text.length > FRAME_BYTES_MAX;
  const frame = isTooLarge ? undefined : ServerFrame.safeParse(value).data;
  if (frame) return frame;
  const command = AnyCommand.safeParse(value).data;
  if (!command) return undefined;
  const because = isTooLarge
    ? `the command has ${text.length} bytes, and a frame at most ${FRAME_BYTES_MAX}`
    : "this agent does not know such a command";
  const about = JobAttempt.safeParse(command.body).data;
  return { type: "unreadable_command", seq: command.seq, about, because };
}

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
