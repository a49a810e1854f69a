// Everything production code takes from the machine's dice comes from the seed instead, and a
// signature is a tag that costs little and takes no turn of the event loop.

import crypto, {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  KeyObject,
} from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { useMachineCoders } from "@exclave/machine";
import type { Dice } from "./dice.ts";

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
  const pair = type === "ed25519" ? generate("ed25519") : generate("x25519");
  for (const key of Object.values(pair)) rememberTexts(key);
  return pair;
}

/** The few keys there are get written out again and again. */
function rememberTexts(key: KeyObject): KeyObject {
  const write = key.export.bind(key) as (options: object) => unknown;
  const known = new Map<string, unknown>();
  const remembered = (options: object) => {
    const how = JSON.stringify(options);
    const text = known.get(how) ?? write(options);
    known.set(how, text);
    return text;
  };
  return Object.defineProperty(key, "export", { value: remembered });
}

function bytes(length: number): Buffer {
  const made = Buffer.alloc(length);
  for (let index = 0; index < length; index++) made[index] = dice?.below(256) ?? 0;
  return made;
}

function replaceChance(): void {
  useMachineCoders();
  Object.assign(crypto, {
    randomBytes: bytes,
    randomUUID: () => {
      const hex = bytes(16).toString("hex");
      return [8, 12, 16, 20, 32]
        .map((end, at, ends) => hex.slice(ends[at - 1] ?? 0, end))
        .join("-");
    },
    generateKeyPairSync: pairOf,
    createPrivateKey: remembering(createPrivateKey),
    createPublicKey: remembering(createPublicKey),
    sign: (_: unknown, data: Uint8Array, key: KeyObject) => tagOf(data, key),
    verify: (_: unknown, data: Uint8Array, key: KeyObject, signature: Uint8Array) =>
      tagOf(data, key).equals(signature),
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

/** Keys are read again and again from the same few texts. */
function remembering(read: typeof createPrivateKey | typeof createPublicKey) {
  const known = new Map<string, KeyObject>();
  return (input: string | KeyObject | { readonly key: Buffer }): KeyObject => {
    if (input instanceof KeyObject) return read(input as never);
    const text = typeof input === "string" ? input : input.key.toString("base64");
    const key = known.get(text) ?? rememberTexts(read(input));
    known.set(text, key);
    return key;
  };
}

const publicTexts = new WeakMap<KeyObject, Buffer>();

/** Stands for a signature: only whoever names the same key and the same bytes gets it. */
function tagOf(data: Uint8Array, key: KeyObject): Buffer {
  const known = publicTexts.get(key);
  const text = known ?? publicOf(key).export({ format: "der", type: "spki" });
  publicTexts.set(key, text);
  return createHash("sha256").update(text).update(data).digest();
}

const readPublic = createPublicKey;

function publicOf(key: KeyObject): KeyObject {
  return key.type === "private" ? readPublic(key) : key;
}
