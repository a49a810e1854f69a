// What people do with keys: look, replace one, take the root key away. The next trust document is made
// here and signed by root, which may not be here.

import { createPublicKey, randomBytes } from "node:crypto";
import { type KeysView, ROOT_EXPORT_PAYLOAD_TYPE, type TrustChange, timeOf } from "@exclave/api";
import {
  canonicalBytes,
  Failure,
  fromBase64,
  moveOrigins,
  preAuthEncoding,
  rotateTrust,
  sha256Hex,
  TRUST_ROLES,
  type TrustDocument,
  type TrustedKey,
  type TrustRole,
  toBase64,
} from "@exclave/core";
import { verifySignature } from "@exclave/machine";
import { audit, type ServerContext } from "../context.ts";

const BEHIND_MAX = 100;

export async function viewKeys({ trust, store, presence }: ServerContext): Promise<KeysView> {
  const { document, digest } = trust.current();
  const held = new Set((await trust.signer.keys()).map(({ keyid }) => keyid));
  const agents = (await store.read.agents.all()).filter(({ revokedAt }) => revokedAt === null);
  const counts = new Map<number, number>();
  for (const { trustVersion } of agents) {
    counts.set(trustVersion, (counts.get(trustVersion) ?? 0) + 1);
  }
  const behind = agents.filter(({ trustVersion }) => trustVersion < document.version);
  return {
    version: document.version,
    digest,
    expiresAt: timeOf(document.expiresAt),
    origins: [...document.origins],
    roles: TRUST_ROLES.map((role) => ({
      role,
      threshold: document.roles[role].threshold,
      keys: document.roles[role].keyids.map((keyid) => ({
        keyid,
        scheme: document.keys[keyid]?.scheme ?? "ed25519",
        until: timeOf(document.keys[keyid]?.until ?? null),
        held: held.has(keyid),
      })),
    })),
    agents: [...counts]
      .map(([version, count]) => ({ version, agents: count }))
      .sort((a, b) => b.version - a.version),
    behind: behind.slice(0, BEHIND_MAX).map(({ id, audience, installName, trustVersion }) => ({
      agent: id,
      audience,
      install: installName,
      version: trustVersion,
      isOnline: presence.isOnline(audience),
    })),
  };
}

export interface RotateKey {
  readonly role: TrustRole;
  readonly revoke: boolean;
  readonly graceMs?: number | undefined;
  readonly newRoot?: string | undefined;
  readonly by: string;
}

export async function rotateKey(context: ServerContext, wish: RotateKey): Promise<TrustChange> {
  const { role, revoke, graceMs, newRoot, by } = wish;
  if (newRoot !== undefined && role !== "root") {
    throw new Failure("invalid", `a ${role} key is made by the signer, not brought along`);
  }
  const { trust } = context;
  const key = newRoot === undefined ? await unusedKey(context, role) : publicKey(newRoot);
  const document = rotateTrust(trust.current().document, {
    role,
    key,
    revoke,
    now: context.now(),
    ...(graceMs === undefined ? {} : { graceMs }),
  });
  return changeTrust(context, document, by, { role, revoke, keyid: key.keyid });
}

export function renewTrust(context: ServerContext, by: string): Promise<TrustChange> {
  const { trust, now, publicUrl } = context;
  const origins = [new URL(publicUrl()).origin];
  const document = moveOrigins(trust.current().document, origins, now());
  return changeTrust(context, document, by, { because: "renewed" });
}

async function changeTrust(
  { trust }: ServerContext,
  document: TrustDocument,
  by: string,
  details: Readonly<Record<string, unknown>>,
): Promise<TrustChange> {
  const made = await trust.change(document, by, details);
  if (made.kind === "published") {
    return { kind: "published", version: made.version.document.version };
  }
  const { payloadType, payload, signatures } = made.draft;
  const { version } = document;
  return { kind: "to_sign", version, payloadType, payload, signatures: [...signatures] };
}

/** One that was made for a rotation nobody signed, or a new one; never one that counted before. */
async function unusedKey({ trust }: ServerContext, role: TrustRole): Promise<TrustedKey> {
  const used = new Set(trust.after(0).flatMap(({ document }) => Object.keys(document.keys)));
  const held = await trust.signer.keys();
  const unused = held.find((key) => key.role === role && !used.has(key.keyid));
  return unused ?? trust.signer.make(role);
}

function publicKey(spki: string): TrustedKey {
  const der = fromBase64(spki);
  const key = der && ({ key: Buffer.from(der), format: "der", type: "spki" } as const);
  try {
    if (der && key && createPublicKey(key).asymmetricKeyType === "ed25519") {
      return { keyid: sha256Hex(der), spki, scheme: "ed25519" };
    }
  } catch {
    // Said below.
  }
  throw new Failure("invalid", "the new root key is not an Ed25519 public key");
}

export interface RootExport {
  /** Gives the root key away; it stays here until its new holder has shown to have it. */
  start(
    context: ServerContext,
    by: string,
  ): Promise<{ keyid: string; pem: string; challenge: string }>;
  finish(
    context: ServerContext,
    proof: { readonly keyid: string; readonly signature: string; readonly by: string },
  ): Promise<void>;
}

export function createRootExport(): RootExport {
  const challenges = new Map<string, Uint8Array>();
  return { start, finish };

  async function start(context: ServerContext, by: string) {
    const { document } = context.trust.current();
    const held = (await context.trust.signer.keys()).filter(({ role }) => role === "root");
    const root = held.find(({ keyid }) => document.roles.root.keyids.includes(keyid));
    if (!root) throw new Failure("not_found", "the root key is not here: it was taken offline");
    const { keyid } = root;
    const pem = await context.trust.signer.exportRoot(keyid);
    const challenge = canonicalBytes({ keyid, nonce: randomBytes(24).toString("base64url") });
    challenges.set(keyid, challenge);
    await onRecord(context, by, "root.exported", keyid);
    return { keyid, pem, challenge: toBase64(challenge) };
  }

  async function finish(
    context: ServerContext,
    { keyid, signature, by }: { keyid: string; signature: string; by: string },
  ): Promise<void> {
    const challenge = challenges.get(keyid);
    const key = context.trust.current().document.keys[keyid];
    const bytes = fromBase64(signature);
    if (!challenge || !key || !bytes) {
      throw new Failure("conflict", "the export of this root key was not begun here; begin anew");
    }
    const signed = preAuthEncoding(ROOT_EXPORT_PAYLOAD_TYPE, challenge);
    if (!verifySignature(key.spki, signed, bytes, key.scheme)) {
      throw new Failure("signature", "that signature is not by the root key: it is kept here");
    }
    challenges.delete(keyid);
    await context.trust.signer.forget("root", keyid);
    await onRecord(context, by, "root.forgotten", keyid);
  }
}

function onRecord(
  context: ServerContext,
  actor: string,
  action: string,
  keyid: string,
): Promise<unknown> {
  return context.store.transaction((tx) =>
    audit(tx, context, { actor, action, subject: `key/${keyid.slice(0, 16)}`, details: { keyid } }),
  );
}
