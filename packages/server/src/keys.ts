// The server's keys: made at first start, kept as PEM that its owner alone can read, each for one
// purpose. The director says what an install should do now, the release key says what exists, the
// registry key opens the vendor's registry for minutes.

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
} from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ServerKeys } from "@exclave/api";
import { Failure, sha256Hex, toBase64 } from "@exclave/core";
import { writeDurably } from "./durable-file.ts";

export interface SigningKey {
  readonly keyid: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  sign(bytes: Uint8Array): Uint8Array;
}

export interface Keys {
  readonly director: SigningKey;
  readonly release: SigningKey;
  readonly registry: SigningKey;
  /** What agents pin when they join. */
  readonly published: ServerKeys;
}

export async function loadKeys(directory: string): Promise<Keys> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const director = await loadKey(join(directory, "director.pem"));
  const release = await loadKey(join(directory, "release.pem"));
  const registry = await loadKey(join(directory, "registry.pem"));
  return {
    director,
    release,
    registry,
    published: { director: publishedKey(director), release: publishedKey(release) },
  };
}

async function loadKey(file: string): Promise<SigningKey> {
  const pem = (await readIfThere(file)) ?? (await makeKey(file));
  try {
    return signingKey(createPrivateKey(pem));
  } catch (cause) {
    throw new Failure("invalid", `${file} does not hold a private key`, { cause });
  }
}

async function makeKey(file: string): Promise<string> {
  const { privateKey } = generateKeyPairSync("ed25519");
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  await writeDurably(file, pem, 0o600);
  return pem;
}

export function signingKey(privateKey: KeyObject): SigningKey {
  const publicKey = createPublicKey(privateKey);
  return {
    keyid: sha256Hex(spkiOf(publicKey)),
    privateKey,
    publicKey,
    sign: (bytes) => sign(null, bytes, privateKey),
  };
}

function publishedKey({ keyid, publicKey }: SigningKey): ServerKeys["director"] {
  return { keyid, spki: toBase64(spkiOf(publicKey)) };
}

function spkiOf(publicKey: KeyObject): Uint8Array {
  return publicKey.export({ type: "spki", format: "der" });
}

export async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (reason) {
    if ((reason as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw reason;
  }
}
