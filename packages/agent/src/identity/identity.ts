// Who this agent is: keys it made itself and the id the server gave it. The private keys never leave
// this file.

import { createPrivateKey, type KeyObject, sign } from "node:crypto";
import { AgentKind } from "@exclave/api";
import { AgentId, AppId, Audience, Failure, InstallName } from "@exclave/core";
import { readIfThere, writeDurably } from "@exclave/machine";
import { z } from "zod";

const PinnedKey = z.object({ keyid: z.string(), spki: z.base64() });
export const PinnedKeys = z.object({ director: PinnedKey, release: PinnedKey });
export type PinnedKeys = z.infer<typeof PinnedKeys>;

export const Identity = z.object({
  version: z.literal(1),
  agent: AgentId,
  kind: AgentKind,
  audience: Audience,
  /** For the agent of an install: its name, for people to read, and the app it is a copy of. */
  install: InstallName.optional(),
  app: AppId.optional(),
  keyGeneration: z.int().positive(),
  serverUrl: z.url(),
  /** In PEM: the authority that has to vouch for the server; the machine's roots unless given. */
  serverCa: z.string().optional(),
  /** Of an agent that joined before there were trust documents. */
  keys: PinnedKeys.optional(),
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
