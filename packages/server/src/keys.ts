// The one private key that the web process holds: it opens the vendor's registry for minutes. Every
// other is the signer's. Made at first start, kept as PEM that its owner alone can read.

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
} from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure, sha256Hex } from "@exclave/core";
import { writeDurably } from "@exclave/machine";

export interface SigningKey {
  readonly keyid: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  sign(bytes: Uint8Array): Uint8Array;
}

export interface Keys {
  readonly registry: SigningKey;
}

export async function loadKeys(directory: string): Promise<Keys> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  return { registry: await loadKey(join(directory, "registry.pem"), makeEd25519) };
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

async function keepKey(file: string, privateKey: KeyObject): Promise<string> {
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  await writeDurably(file, pem);
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
