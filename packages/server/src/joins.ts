// How an agent becomes one: a single-use secret, good for fifteen minutes, is exchanged for an
// identity that rests on the agent's own key.

import { createPublicKey, verify } from "node:crypto";
import {
  type AgentKind,
  encodeJoinString,
  type JoinRequest,
  type JoinResponse,
} from "@exclave/api";
import { type Audience, Failure, fromBase64, InstallName, Instant } from "@exclave/core";
import { audit, type ServerContext } from "./context.ts";
import { newAgentId, newSecret, secretHash } from "./identifiers.ts";
import type { AgentRow, InstallRow, JoinRow } from "./store/rows.ts";
import type { Tables } from "./store/store.ts";
import { certificateEnd } from "./tls/certificate-rules.ts";

export const JOIN_TTL_MS = 15 * 60_000;

export interface Join {
  readonly joinString: string;
  readonly expiresAt: Instant;
}

export interface NewJoin {
  readonly kind: AgentKind;
  readonly audience: Audience;
  /** For the agent of an install: which. */
  readonly install?: Pick<InstallRow, "name" | "app">;
  readonly by: string;
}

export async function createJoin(
  tx: Tables,
  context: Pick<ServerContext, "trust" | "publicUrl" | "caFingerprint" | "now">,
  { kind, audience, install, by }: NewJoin,
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
    details: { kind, expiresAt, install: install?.name },
  });
  const trustDigest = context.trust.current().digest;
  const url = context.publicUrl();
  const about = install && { install: InstallName.parse(install.name), app: install.app };
  const fingerprint = context.caFingerprint();
  const pin = fingerprint === undefined ? {} : { caFingerprint: fingerprint };
  const join = { url, ...pin, kind, audience, ...about, secret, trustDigest };
  return { joinString: encodeJoinString(join), expiresAt };
}

export async function joinAgent(
  context: ServerContext,
  request: JoinRequest,
): Promise<JoinResponse> {
  checkPossession(request);
  // Not the current one perhaps: what came after it is sent over the link.
  const trust = context.trust.byDigest(request.trustDigest);
  if (!trust) {
    throw new Failure("unauthenticated", "this server has no trust document of that digest");
  }
  const { store, now } = context;
  const { agent, install } = await store.transaction(async (tx) => {
    const join = unexpired(await tx.joins.get(secretHash(request.secret)), now());
    const install = await installOf(tx, join);
    const before = await tx.agents.byAudience(join.audience);
    if (join.usedAt !== null) return { agent: joinedBefore(before, request), install };
    refuseRevoked(before, join);
    await tx.joins.put({ ...join, usedAt: now() });
    const until = context.certificates && Instant.parse(certificateEnd(now()));
    const joined = joinedAgent(before, { join, install, request, at: now(), until });
    await tx.agents.put(joined);
    await audit(tx, context, {
      actor: joined.id,
      action: "agent.joined",
      subject: join.audience,
      details: { kind: join.kind, keyGeneration: joined.keyGeneration, install: install?.name },
    });
    return { agent: joined, install };
  });
  const { id, kind, audience, keyGeneration } = agent;
  const about = install && { install: InstallName.parse(install.name), app: install.app };
  const certificate = context.certificates?.issue(agent, certificateEnd(now()));
  const shown = certificate === undefined ? {} : { certificate };
  return { agent: id, kind, audience, ...about, keyGeneration, trust: trust.envelope, ...shown };
}

/** A join string that was handed out does not bring back an install that was forgotten since. */
async function installOf(tx: Tables, { kind, audience }: JoinRow): Promise<InstallRow | undefined> {
  if (kind !== "install") return undefined;
  const install = await tx.installs.get(audience);
  if (install) return install;
  throw new Failure("unauthenticated", "this join string is for an install that is not known here");
}

interface Joining {
  readonly join: JoinRow;
  readonly install: InstallRow | undefined;
  readonly request: JoinRequest;
  readonly at: Instant;
  /** When its certificate ends, if it gets one. */
  readonly until: Instant | undefined;
}

/** A second join for the same audience is the same agent with new keys: the old ones are void. */
function joinedAgent(
  before: AgentRow | undefined,
  { join, install, request, at, until }: Joining,
): AgentRow {
  const { kind, audience } = join;
  const { identityKey, sealingKey } = request;
  const fresh = {
    identityKey,
    sealingKey,
    joinedAt: at,
    revokedAt: null,
    keyGeneration: (before?.keyGeneration ?? 0) + 1,
    boots: [],
    certificateUntil: until,
  };
  if (before) return { ...before, ...fresh };
  return {
    id: newAgentId(),
    kind,
    audience,
    installName: install?.name ?? null,
    ...fresh,
    version: "",
    platform: "",
    runtime: "",
    seenAt: at,
    everConnected: false,
    isInventoryWanted: false,
    trustVersion: 0,
    journalId: null,
    sessionEpoch: 0,
    heldBy: null,
    upAcked: 0,
    downHead: 0,
    downAcked: 0,
    reset: null,
    alarms: [],
  };
}

/** Whoever has an agent's key may have a join string of its as well: one from before the revocation is void. */
function refuseRevoked(before: AgentRow | undefined, { createdAt }: JoinRow): void {
  if (!before || before.revokedAt === null || createdAt > before.revokedAt) return;
  const message = "the agent was revoked after this join string was made; ask for a new one";
  throw new Failure("unauthenticated", message);
}

function unexpired(join: JoinRow | undefined, now: Instant): JoinRow {
  if (!join) throw new Failure("unauthenticated", "this join string is not one of this server's");
  if (join.usedAt === null && join.expiresAt <= now) {
    throw new Failure("unauthenticated", "this join string has expired; ask for a new one");
  }
  return join;
}

/** A secret works once. Whoever spent it with this very key has only lost the answer, and gets it again. */
function joinedBefore(agent: AgentRow | undefined, { identityKey }: JoinRequest): AgentRow {
  if (agent?.identityKey === identityKey && agent.revokedAt === null) return agent;
  throw new Failure("unauthenticated", "this join string was used before; ask for a new one");
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
