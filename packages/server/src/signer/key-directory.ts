// Private keys as files that their owner alone can read, and what can be done with them. Runs inside
// the signer's process; the web process of the server does not import it.

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
} from "node:crypto";
import { mkdir, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  Failure,
  type KeyScheme,
  preAuthEncoding,
  sha256Hex,
  TRUST_ROLES,
  type TrustRole,
  toBase64,
} from "@exclave/core";
import { readIfThere, syncDirectory, writeDurably } from "@exclave/machine";
import { checkSignRequest, ROLE_RULES, type Signer, type SignerKey } from "./signer.ts";

const KEY_FILE = new RegExp(`^(${TRUST_ROLES.join("|")})(-[0-9a-f]{16})?\\.pem$`);

interface HeldKey extends SignerKey {
  readonly file: string;
  readonly privateKey: KeyObject;
}

export async function openKeyDirectory(directory: string): Promise<Signer> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  let held = await readKeys(directory);

  return {
    async keys() {
      // Servers that share the directory have a signer each: what another one made or removed counts.
      held = await readKeys(directory);
      return [...held.values()].map(publicHalf);
    },
    async sign(request) {
      if (!held.has(request.keyid)) held = await readKeys(directory);
      const key = keyOf(request.role, request.keyid);
      checkSignRequest(request);
      const bytes = preAuthEncoding(request.payloadType, request.payload);
      return sign(key.scheme === "ed25519" ? null : "sha256", bytes, key.privateKey);
    },
    async make(role) {
      const privateKey = makeKey(ROLE_RULES[role].scheme);
      const draft = heldKey(role, "", privateKey);
      const file = join(directory, `${role}-${draft.keyid.slice(0, 16)}.pem`);
      const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
      await writeDurably(file, pem);
      held.set(draft.keyid, { ...draft, file });
      return publicHalf(draft);
    },
    async forget(role, keyid) {
      held = await readKeys(directory);
      const key = held.get(keyid);
      if (!key || key.role !== role) return;
      await removeDurably(directory, key.file);
      held.delete(keyid);
    },
    async exportRoot(keyid) {
      if (!held.has(keyid)) held = await readKeys(directory);
      const { privateKey } = keyOf("root", keyid);
      return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    },
    close: async () => undefined,
  };

  function keyOf(role: TrustRole, keyid: string): HeldKey {
    const key = held.get(keyid);
    if (key?.role === role) return key;
    throw new Failure("not_found", `the signer holds no ${role} key ${keyid.slice(0, 12)}`);
  }
}

async function readKeys(directory: string): Promise<Map<string, HeldKey>> {
  const held = new Map<string, HeldKey>();
  for (const name of (await readdir(directory)).sort()) {
    const role = KEY_FILE.exec(name)?.[1] as TrustRole | undefined;
    if (role === undefined) continue;
    const file = join(directory, name);
    const text = await readIfThere(file);
    // Removed by another signer since it was listed.
    if (text === undefined) continue;
    const key = heldKey(role, file, readPrivateKey(file, text));
    held.set(key.keyid, key);
  }
  return held;
}

function publicHalf({ role, keyid, spki, scheme }: SignerKey): SignerKey {
  return { role, keyid, spki, scheme };
}

function heldKey(role: TrustRole, file: string, privateKey: KeyObject): HeldKey {
  const publicKey = createPublicKey(privateKey);
  const der = publicKey.export({ type: "spki", format: "der" });
  const scheme = schemeOf(publicKey);
  if (!scheme) throw new Failure("invalid", `${file} holds a key of a kind that is not used here`);
  return { role, file, privateKey, keyid: sha256Hex(der), spki: toBase64(der), scheme };
}

function schemeOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): KeyScheme | undefined {
  if (asymmetricKeyType === "ed25519") return "ed25519";
  const isP256 = asymmetricKeyDetails?.namedCurve === "prime256v1";
  return asymmetricKeyType === "ec" && isP256 ? "ecdsa-p256" : undefined;
}

function makeKey(scheme: KeyScheme): KeyObject {
  return scheme === "ed25519"
    ? generateKeyPairSync("ed25519").privateKey
    : generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
}

function readPrivateKey(file: string, pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch (cause) {
    throw new Failure("invalid", `${file} does not hold a private key`, { cause });
  }
}

/** Written over before it is unlinked; what a disk keeps of it elsewhere nobody can reach from here. */
async function removeDurably(directory: string, file: string): Promise<void> {
  const handle = await open(file, "r+");
  try {
    const { size } = await handle.stat();
    await handle.write(Buffer.alloc(size), 0, size, 0);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rm(file, { force: true });
  await syncDirectory(directory);
}
