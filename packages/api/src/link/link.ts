// The link `exclave.v1`: every message between an agent and the server, with its schema. Control
// frames are JSON text; log data are binary frames. Unknown fields are ignored, so that a newer
// version of the other side can be understood; unknown message types are refused.

import { AgentId, CHECKPOINTS_MAX, Envelope, JobId } from "@exclave/core";
import { z } from "zod";
import { AgentEvent, JobAttempt, LOOKS_MAX } from "./agent-events.ts";
import {
  AUTHORITIES_MAX,
  CERTIFICATE_CHARS_MAX,
  CHECKPOINTS_PRESENTED_MAX,
  HELLO_JOBS_MAX,
} from "./link-limits.ts";

export const LINK_PROTOCOL = "exclave.v1";

export const LINK_PATH = "/v1/link";

/** What an agent says of itself: it is kept, shown and on record. */
const Word = z.string().max(200);

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
    /** Fingerprints of the authorities it holds the server against; none where its machine's roots count. */
    authorities: z.array(Word).max(AUTHORITIES_MAX).optional(),
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
  /** The certificate that ends then is on its disk: the next connection is made with it. */
  z.object({ type: z.literal("certificate_kept"), until: z.int().nonnegative() }),
  /** These are the authorities it holds the server against from its next connection on. */
  z.object({
    type: z.literal("authorities_kept"),
    fingerprints: z.array(Word).max(AUTHORITIES_MAX),
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
  /** The agent's next client certificate, in PEM. On disk before it is used. Needs `certificates`. */
  z.object({ type: z.literal("certificate"), certificate: z.string().max(CERTIFICATE_CHARS_MAX) }),
  /** All authorities that vouch for the server now, in PEM, in place of those it knew. Needs `authorities`. */
  z.object({
    type: z.literal("authorities"),
    certificates: z.array(z.string().max(CERTIFICATE_CHARS_MAX)).min(1).max(AUTHORITIES_MAX),
  }),
  z.object({ type: z.literal("ping"), id: z.int() }),
  /** This server stops: the agent ends the connection that long from now, and dials again at once. Needs `drain`. */
  z.object({ type: z.literal("drain"), afterMs: z.int().nonnegative(), because: z.string() }),
  z.object({
    type: z.literal("goaway"),
    code: z.string(),
    because: z.string(),
    retryAfterMs: z.int().nonnegative(),
    /** Over how long this agent is to spread, where that is not what the welcome said: it goes alone. */
    spreadMs: z.int().nonnegative().optional(),
    permanent: z.boolean().default(false),
  }),
]);

export type ServerFrame = z.infer<typeof ServerFrame>;

/** What an agent signs to prove, on this connection and no other, that it holds its key. */
export function helloBytes(nonce: string, agent: string, bootId: string): Uint8Array {
  return new TextEncoder().encode(`exclave.v1 hello\n${nonce}\n${agent}\n${bootId}`);
}
