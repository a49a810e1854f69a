// How an agent becomes one: a single-use secret, good for fifteen minutes, is exchanged for an
// identity that rests on the agent's own key.

import { createPublicKey, verify } from "node:crypto";
import {
  type AgentKind,
  encodeJoinString,
  type JoinRequest,
  type JoinResponse,
} from "@exclave/api";
import { digestOf, Failure, fromBase64, Instant } from "@exclave/core";
import { audit, type ServerContext } from "./context.ts";
import { newAgentId, newSecret, secretHash } from "./identifiers.ts";
import type { AgentRow, JoinRow } from "./store/rows.ts";
import type { Tables } from "./store/store.ts";

export const JOIN_TTL_MS = 15 * 60_000;

export interface Join {
  readonly joinString: string;
  readonly expiresAt: Instant;
}

export async function createJoin(
  tx: Tables,
  context: Pick<ServerContext, "keys" | "publicUrl" | "now">,
  { kind, audience, by }: { kind: AgentKind; audience: string; by: string },
): Promise<Join> {
  const createdAt = context.now();
  const expiresAt = Instant.parse(createdAt + JOIN_TTL_MS);
  const secret = newSecret();
  const row: JoinRow = {
    hash: secretHash(secret),
    kind,
    audience,
    createdAt,
    expiresAt,
    usedAt: null,
  };
  await tx.joins.put(row);
  await audit(tx, context, {
    actor: by,
    action: "join.created",
    subject: audience,
    details: { kind, expiresAt },
  });
  const keysDigest = digestOf(context.keys.published);
  const url = context.publicUrl();
  return { joinString: encodeJoinString({ url, kind, audience, secret, keysDigest }), expiresAt };
}

export async function joinAgent(
  context: ServerContext,
  request: JoinRequest,
): Promise<JoinResponse> {
  checkPossession(request);
  const { store, now, keys } = context;
  const agent = await store.transaction(async (tx) => {
    const join = usable(await tx.joins.get(secretHash(request.secret)), now());
    await tx.joins.put({ ...join, usedAt: now() });
    const joined = joinedAgent(await tx.agents.byAudience(join.audience), join, request, now());
    await tx.agents.put(joined);
    await audit(tx, context, {
      actor: joined.id,
      action: "agent.joined",
      subject: join.audience,
      details: { kind: join.kind, keyGeneration: joined.keyGeneration },
    });
    return joined;
  });
  const { id, kind, audience, keyGeneration } = agent;
  return { agent: id, kind, audience, keyGeneration, keys: keys.published };
}

/** A second join for the same audience is the same agent with new keys: the old ones are void. */
function joinedAgent(
  before: AgentRow | undefined,
  { kind, audience }: JoinRow,
  { identityKey, sealingKey }: JoinRequest,
  at: Instant,
): AgentRow {
  const fresh = {
    identityKey,
    sealingKey,
    joinedAt: at,
    revokedAt: null,
    keyGeneration: (before?.keyGeneration ?? 0) + 1,
  };
  if (before) return { ...before, ...fresh };
  return {
    id: newAgentId(),
    kind,
    audience,
    ...fresh,
    version: "",
    platform: "",
    runtime: "",
    seenAt: at,
    everConnected: false,
    journalId: null,
    sessionEpoch: 0,
    upAcked: 0,
    downHead: 0,
    downAcked: 0,
  };
}

function usable(join: JoinRow | undefined, now: Instant): JoinRow {
  if (!join) throw new Failure("unauthenticated", "this join string is not one of this server's");
  if (join.usedAt !== null) {
    throw new Failure("unauthenticated", "this join string was used before; ask for a new one");
  }
  if (join.expiresAt <= now) {
    throw new Failure("unauthenticated", "this join string has expired; ask for a new one");
  }
  return join;
}

function checkPossession({ secret, identityKey, proof }: JoinRequest): void {
  if (!isSignedBy(identityKey, new TextEncoder().encode(secret), proof)) {
    throw new Failure("unauthenticated", "the proof is not by the key that wants to join");
  }
}

/** Whether an Ed25519 signature (base64) over the bytes is by that key (base64 SPKI). */
export function isSignedBy(spki: string, bytes: Uint8Array, signature: string): boolean {
  const der = fromBase64(spki);
  const sig = fromBase64(signature);
  if (!der || !sig) return false;
  try {
    const key = createPublicKey({ key: Buffer.from(der), format: "der", type: "spki" });
    return key.asymmetricKeyType === "ed25519" && verify(null, bytes, key, sig);
  } catch {
    return false;
  }
}
