// What must outlive the journal: secrets made in the install, outputs, schedules, the manifests of jobs
// that were launched, the floors below which nothing is accepted, and checkpoints of the server's record. One sealed file per entry, in a
// directory of its own: a damaged entry costs that entry, a lost journal costs none.
//
// AES-256-GCM by a key that lies beside the agent's identity. The entry's name is authenticated with
// it, so that one entry cannot stand in for another.

import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { Failure } from "@exclave/core";
import { isMissing, writeDurablySync } from "@exclave/machine";
import { z } from "zod";
import type { Log } from "../log.ts";

export const VAULT_KINDS = [
  "secret",
  "outputs",
  "schedule",
  "job",
  "job-secrets",
  "floor",
  "releases",
  "checkpoints",
  "applied",
] as const;
export type VaultKind = (typeof VAULT_KINDS)[number];

export interface Vault {
  /** The entry's value; undefined where there is none. An entry that cannot be opened is a Failure. */
  read(kind: VaultKind, name: string): unknown;

  /** Every entry of a kind, by name. A damaged one is quarantined: the others are still good. */
  entries(kind: VaultKind): readonly VaultEntry[];

  /** Durable when it returns; the entry is the old one or the new one, never half of either. */
  keep(kind: VaultKind, name: string, value: unknown): void;

  drop(kind: VaultKind, name: string): void;
}

export interface VaultEntry {
  readonly name: string;
  readonly value: unknown;
}

export interface SealedVaultOptions {
  readonly directory: string;
  readonly keyPath: string;
  readonly log: Log;
}

const Sealed = z.object({ name: z.string(), value: z.unknown() });
const ENDING = ".sealed";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;

export function createSealedVault({ directory, keyPath, log }: SealedVaultOptions): Vault {
  let key: Buffer | undefined;
  const sealingKey = () => (key ??= openKey(keyPath, directory));

  return {
    read(kind, name) {
      const file = fileOf(kind, name);
      const bytes = readIfThere(join(directory, file));
      return bytes && open(file, bytes).value;
    },
    entries: (kind) =>
      filesIn(directory)
        .filter((file) => file.startsWith(`${kind}.`))
        .flatMap(openOrMoveAside)
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
    keep(kind, name, value) {
      const file = fileOf(kind, name);
      writeWhole(join(directory, file), seal(file, JSON.stringify({ name, value }), sealingKey()));
    },
    drop(kind, name) {
      rmSync(join(directory, fileOf(kind, name)), { force: true });
    },
  };

  function openOrMoveAside(file: string): VaultEntry[] {
    const path = join(directory, file);
    const bytes = readIfThere(path);
    sealingKey();
    try {
      return bytes ? [open(file, bytes)] : [];
    } catch (reason) {
      log.error("a damaged entry of the vault is quarantined", { path, reason });
      renameSync(path, `${path}.damaged`);
      return [];
    }
  }

  function open(file: string, bytes: Buffer): VaultEntry {
    const key = sealingKey();
    try {
      return Sealed.parse(JSON.parse(unseal(file, bytes, key)));
    } catch (cause) {
      const path = join(directory, file);
      const message = `${path} is damaged or sealed by another key; restore it, or remove it to do without what it keeps`;
      throw new Failure("conflict", message, { cause });
    }
  }
}

/** Names are hashed: they may be longer than a file's name, and need not be readable from outside. */
function fileOf(kind: VaultKind, name: string): string {
  return `${kind}.${createHash("sha256").update(name).digest("hex").slice(0, 40)}${ENDING}`;
}

function seal(name: string, text: string, key: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(name));
  const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), body]);
}

function unseal(name: string, sealed: Buffer, key: Buffer): string {
  const nonce = sealed.subarray(0, NONCE_BYTES);
  const tag = sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(name))
    .setAuthTag(tag);
  const body = sealed.subarray(NONCE_BYTES + TAG_BYTES);
  return Buffer.concat([decipher.update(body), decipher.final()]).toString("utf8");
}

/** A key is made for an empty vault alone: a new one would make what is sealed unreadable for good. */
function openKey(path: string, directory: string): Buffer {
  const kept = readIfThere(path);
  if (kept) {
    const key = Buffer.from(kept.toString("utf8").trim(), "base64");
    if (key.length === KEY_BYTES) return key;
    throw new Failure("conflict", `${path} does not hold the vault's key; restore it`);
  }
  if (filesIn(directory).length > 0) {
    const message = `the vault's key ${path} is missing; restore it, or remove ${directory} to make the install's secrets anew`;
    throw new Failure("conflict", message);
  }
  const key = randomBytes(KEY_BYTES);
  writeWhole(path, Buffer.from(`${key.toString("base64")}\n`));
  return key;
}

function filesIn(directory: string): string[] {
  try {
    return readdirSync(directory).filter((file) => file.endsWith(ENDING));
  } catch (reason) {
    if (isMissing(reason)) return [];
    throw reason;
  }
}

function readIfThere(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch (reason) {
    if (isMissing(reason)) return undefined;
    throw reason;
  }
}

function writeWhole(path: string, bytes: Buffer): void {
  const directory = dirname(path);
  try {
    writeDurablySync(path, bytes);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const isFull = code === "ENOSPC" || code === "EDQUOT";
    const text = `the vault in ${directory} cannot be written: ${message}`;
    throw new Failure(isFull ? "disk_full" : "unavailable", text, { cause });
  }
}
