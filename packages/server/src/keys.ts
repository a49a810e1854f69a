// The server's keys: made at first start, kept as PEM that its owner alone can read, each for one
// purpose. The director says what an install should do now, the release key says what exists, the
// registry key opens the vendor's registry for minutes. The release key is P-256, which every tool
// that checks signatures of artifacts understands; the others are Ed25519.

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
  const director = await loadKey(join(directory, "director.pem"), makeEd25519);
  const release = await loadKey(join(directory, "release.pem"), makeP256);
  const registry = await loadKey(join(directory, "registry.pem"), makeEd25519);
  return {
    director,
    release,
    registry,
    published: { director: publishedKey(director), release: publishedKey(release) },
  };
}

async function loadKey(file: string, make: () => KeyObject): Promise<SigningKey> {
  const pem = (await readIfThere(file)) ?? (await keepKey(file, make()));
  try {
    return signingKey(createPrivateKey(pem));
  } catch (cause) {
    throw new Failure("invalid", `${file} does not hold a private key`, { cause });
  }
}

function makeEd25519(): KeyObject {
  return generateKeyPairSync("ed25519").privateKey;
}

function makeP256(): KeyObject {
  return generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
}

async function keepKey(file: string, privateKey: KeyObject): Promise<string> {
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  await writeDurably(file, pem, 0o600);
  return pem;
}

export function signingKey(privateKey: KeyObject): SigningKey {
  const publicKey = createPublicKey(privateKey);
  const algorithm = publicKey.asymmetricKeyType === "ec" ? "sha256" : null;
  return {
    keyid: sha256Hex(spkiOf(publicKey)),
    privateKey,
    publicKey,
    sign: (bytes) => sign(algorithm, bytes, privateKey),
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
