// Everything production code takes from the machine's dice comes from the seed instead, and signing of
// registry tokens, which nobody here checks, costs nothing and takes no turn of the event loop.

import crypto, { createHash, generateKeyPairSync, type KeyObject } from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import type { Dice } from "../dice.ts";

let dice: Dice | undefined;
let keysTaken = 0;
const pairs = new Map<string, { publicKey: KeyObject; privateKey: KeyObject }[]>();
const PAIRS = 8;

/** From now on until the next call, chance is this dice's. */
export function rollWith(next: Dice): void {
  if (!dice) replaceChance();
  dice = next;
  keysTaken = 0;
}

/** A key pair that is the same in every run of a seed, in one process. */
function pairOf(type: "ed25519" | "x25519") {
  const made = pairs.get(type) ?? Array.from({ length: PAIRS }, () => makePair(type));
  pairs.set(type, made);
  return made[keysTaken++ % PAIRS];
}

const generate = generateKeyPairSync;

function makePair(type: "ed25519" | "x25519") {
  return type === "ed25519" ? generate("ed25519") : generate("x25519");
}

function bytes(length: number): Buffer {
  const made = Buffer.alloc(length);
  for (let index = 0; index < length; index++) made[index] = dice?.below(256) ?? 0;
  return made;
}

function replaceChance(): void {
  Object.assign(crypto, {
    randomBytes: bytes,
    randomUUID: () => {
      const hex = bytes(16).toString("hex");
      return [8, 12, 16, 20, 32]
        .map((end, at, ends) => hex.slice(ends[at - 1] ?? 0, end))
        .join("-");
    },
    generateKeyPairSync: pairOf,
  });
  syncBuiltinESMExports();
  Object.defineProperties(globalThis.crypto.subtle, {
    digest: {
      value: async (_: unknown, data: Uint8Array) =>
        new Uint8Array(createHash("sha256").update(data).digest()).buffer,
    },
    sign: { value: async () => new ArrayBuffer(64) },
  });
}
