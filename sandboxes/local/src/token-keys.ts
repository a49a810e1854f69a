// The keys of the install's registry: the agent signs tokens with one half, the registry knows the
// other. Nothing lasting hangs on them, so that lost ones are simply made anew.

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
} from "node:crypto";
import { readFile } from "node:fs/promises";
import { writeDurably } from "@exclave/plugin-sdk";
import type { Home } from "./home.ts";

/** Whether something had to be made: the registry then has to read it. */
export async function makeKeys(home: Home): Promise<boolean> {
  const kept = await readFile(home.tokenKey, "utf8").catch(() => undefined);
  const privateKey = readKey(kept ?? "") ?? generateKeyPairSync("ed25519").privateKey;
  const wanted = createPublicKey(privateKey).export({ type: "spki", format: "pem" }).toString();
  const there = await readFile(home.tokenPublicKey, "utf8").catch(() => undefined);
  if (there === wanted) return false;
  await writeDurably(home.tokenKey, privateKey.export({ type: "pkcs8", format: "pem" }).toString());
  await writeDurably(home.tokenPublicKey, wanted);
  return true;
}

/** Undefined for what is no key any more: a damaged one is replaced as a lost one is. */
function readKey(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}
