// The keys an agent joins with, kept before the server hears of them: a join whose answer was lost is
// retried with the same keys, which the server knows as the ones that spent the secret.

import { createHash, generateKeyPairSync } from "node:crypto";
import { readIfThere, writeDurably } from "@exclave/machine";
import { z } from "zod";

export interface JoiningKeys {
  /** PKCS #8, PEM. */
  readonly identityKey: string;
  readonly sealingKey: string;
}

const Kept = z.object({
  /** Of the join string they were made for; a later one gets keys of its own. */
  joinDigest: z.string(),
  identityKey: z.string(),
  sealingKey: z.string(),
});

export function makeJoiningKeys(): JoiningKeys {
  const pem = { type: "pkcs8", format: "pem" } as const;
  return {
    identityKey: generateKeyPairSync("ed25519").privateKey.export(pem).toString(),
    sealingKey: generateKeyPairSync("x25519").privateKey.export(pem).toString(),
  };
}

/** Those that were kept for this join string; otherwise new ones, on disk before they are returned. */
export async function keptJoiningKeys(path: string, joinString: string): Promise<JoiningKeys> {
  const joinDigest = createHash("sha256").update(joinString.trim()).digest("hex");
  const kept = read(await readIfThere(path));
  if (kept?.joinDigest === joinDigest) {
    return { identityKey: kept.identityKey, sealingKey: kept.sealingKey };
  }
  const keys = makeJoiningKeys();
  await writeDurably(path, `${JSON.stringify({ joinDigest, ...keys })}\n`);
  return keys;
}

function read(text: string | undefined): z.infer<typeof Kept> | undefined {
  if (text === undefined) return undefined;
  try {
    return Kept.safeParse(JSON.parse(text)).data;
  } catch {
    // Torn by a crash: the server has not heard of what was in it.
    return undefined;
  }
}
