// Who this agent is: keys it made itself, the id the server gave it, and the server's keys it pinned
// when it joined. The private keys never leave this file.

import { createPrivateKey, type KeyObject, sign, verify } from "node:crypto";
import { AgentKind, ServerKeys } from "@exclave/api";
import { AgentId, Failure } from "@exclave/core";
import { z } from "zod";
import { readIfThere, writeDurably } from "./durable-file.ts";

export const Identity = z.object({
  version: z.literal(1),
  agent: AgentId,
  kind: AgentKind,
  audience: z.string(),
  keyGeneration: z.int().positive(),
  serverUrl: z.url(),
  keys: ServerKeys,
  /** PKCS #8, PEM. */
  identityKey: z.string(),
  sealingKey: z.string(),
});
export type Identity = z.infer<typeof Identity>;

export async function readIdentity(path: string): Promise<Identity | undefined> {
  const text = await readIfThere(path);
  if (text === undefined) return undefined;
  try {
    return Identity.parse(JSON.parse(text));
  } catch (cause) {
    throw new Failure("invalid", `${path} does not hold an agent's identity`, { cause });
  }
}

export async function keepIdentity(path: string, identity: Identity): Promise<void> {
  await writeDurably(path, `${JSON.stringify(identity, undefined, 2)}\n`);
}

export function signWith(privateKey: string | KeyObject, bytes: Uint8Array): string {
  const key = typeof privateKey === "string" ? createPrivateKey(privateKey) : privateKey;
  return sign(null, bytes, key).toString("base64");
}

/** Ed25519 by a key given as base64 of its SPKI DER; a key that is none verifies nothing. */
export function verifyEd25519(spki: string, bytes: Uint8Array, signature: Uint8Array): boolean {
  try {
    const key = { key: Buffer.from(spki, "base64"), format: "der", type: "spki" } as const;
    return verify(null, bytes, key, signature);
  } catch {
    return false;
  }
}
