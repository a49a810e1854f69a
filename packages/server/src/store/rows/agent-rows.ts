// Who may speak to the server: agents, the strings they join with, tokens of people, and whose keys count.

import { AgentKind, Role } from "@exclave/api";
import { AgentId, Audience, Digest, Envelope, Instant } from "@exclave/core";
import { z } from "zod";

/** One version of the trust document; every one is kept. */
export const TrustRow = z.object({
  version: z.int().positive(),
  digest: Digest,
  envelope: Envelope,
  at: Instant,
  by: z.string(),
  /** Every release was held against its release keys, and those whose statement counts no more are written down. */
  areReleasesChecked: z.boolean().default(false),
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
  /** When the client certificate ends that it was given last. */
  certificateUntil: Instant.optional(),
  /** Fingerprints of the authorities it holds the server against, as it said last. */
  authorities: z.array(z.string()).optional(),
  joinedAt: Instant,
  revokedAt: Instant.nullable(),
  version: z.string(),
  platform: z.string(),
  runtime: z.string(),
  /** When its connection was last seen to come or go. */
  seenAt: Instant,
  everConnected: z.boolean(),
  /** An inventory was asked for, and has not come yet. */
  isInventoryWanted: z.boolean().default(false),
  /** Of the trust document it goes by, as it said itself. */
  trustVersion: z.int().nonnegative().default(0),
  /** How long the record was when the agent last saw a checkpoint of it, as it said at its last hello. */
  checkpointSize: z.int().nonnegative().optional(),
  journalId: z.string().nullable(),
  sessionEpoch: z.int().nonnegative(),
  /** The server that its connection of this epoch is with; null when it ended in good order. */
  heldBy: z.string().nullable().default(null),
  /** Highest sequence of its events that is committed here. */
  upAcked: z.int().nonnegative(),
  /** Highest sequence given to a command for it. */
  downHead: z.int().nonnegative(),
  /** Highest command it has said is in its journal. */
  downAcked: z.int().nonnegative(),
  /** When this server last saw that one of the two had lost what the other relies on. */
  reset: z.object({ at: Instant, because: z.string() }).nullable().default(null),
  /** Processes that connected with its key, the newest last; one that comes back again and again is a copy's. */
  boots: z.array(z.string()).default([]),
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
