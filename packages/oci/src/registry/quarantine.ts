// Damage on the registry's disk: a flipped byte, a file that is gone. Whoever doubts asks for a manifest to
// be verified (`HEAD …/manifests/<digest>?verify=true`). Content that does not have its digest is moved
// aside and no longer served, and a manifest that lost something is taken out of its repository, so that
// the next copy finds both missing and brings them again.

import { createHash } from "node:crypto";
import { mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Digest } from "@exclave/core";
import { unlessAbsent } from "@exclave/machine";
import { blobsOf, childrenOf, parseManifest } from "../content/descriptor.ts";
import { splitDigest } from "../content/digest.ts";
import type { RegistryFiles } from "./files/registry-files.ts";

export interface Quarantine {
  /** Whether the manifest and all that this repository should have of it are whole. */
  verify(repository: string, digest: Digest): Promise<boolean>;
  /** Moves content aside that was found not to have its digest. */
  isolate(digest: Digest): Promise<void>;
}

export interface QuarantineOptions {
  readonly directory: string;
  readonly files: RegistryFiles;
  readonly now: () => number;
  /** Told of everything that is quarantined. */
  readonly onDamage: (digest: Digest) => void;
}

/** Content that many manifests share is hashed once in this time, unless its file was changed since. */
const TRUSTED_MS = 60_000;
const TRUSTED_MAX = 10_000;
const KEPT_MAX = 20;

export function createQuarantine(options: QuarantineOptions): Quarantine {
  const { directory, files, now, onDamage } = options;
  const { blobs } = files;
  const aside = join(directory, "damaged");
  const verified = new Map<Digest, { readonly at: number; readonly file: string }>();

  return { verify, isolate };

  async function verify(repository: string, digest: Digest): Promise<boolean> {
    const head = await files.headManifest(repository, digest);
    if (!head) return false;
    if (!(await isWhole(digest))) return false;
    const { bytes } = await files.readManifest(repository, digest);
    const parsed = parseManifest(bytes, head.mediaType);
    let isAllThere = true;
    for (const blob of blobsOf(parsed)) {
      const isLinked = (await files.headBlob(repository, blob.digest)) !== undefined;
      if (!isLinked || !(await isWhole(blob.digest))) isAllThere = false;
    }
    for (const child of childrenOf(parsed)) {
      // An index may have been copied in part: a child that was never here is not lost.
      const isHere = (await files.headManifest(repository, child.digest)) !== undefined;
      if (isHere && !(await verify(repository, child.digest))) isAllThere = false;
    }
    if (!isAllThere) await files.unlinkManifest(repository, digest);
    return isAllThere;
  }

  async function isWhole(digest: Digest): Promise<boolean> {
    const last = verified.get(digest);
    const file = await fileAt(blobs.path(digest));
    if (file === undefined) return false;
    if (last?.file === file && now() - last.at < TRUSTED_MS) return true;
    const { algorithm, hex } = splitDigest(digest);
    const hash = createHash(algorithm);
    for await (const chunk of blobs.read(digest)) hash.update(chunk);
    if (hash.digest("hex") === hex) {
      if (verified.size >= TRUSTED_MAX) verified.clear();
      verified.set(digest, { at: now(), file });
      return true;
    }
    await isolate(digest);
    return false;
  }

  async function isolate(digest: Digest): Promise<void> {
    verified.delete(digest);
    await mkdir(aside, { recursive: true, mode: 0o700 });
    const kept = ((await unlessAbsent(readdir(aside))) ?? []).sort();
    for (const old of kept.slice(0, Math.max(0, kept.length - KEPT_MAX + 1))) {
      await rm(join(aside, old), { force: true });
    }
    const name = `${now()}-${digest.replace(":", "-")}`;
    await unlessAbsent(rename(blobs.path(digest), join(aside, name)));
    onDamage(digest);
  }
}

/** Another text once somebody wrote to it or put another file in its place. */
async function fileAt(path: string): Promise<string | undefined> {
  const seen = await unlessAbsent(stat(path, { bigint: true }));
  return seen && [seen.ino, seen.size, seen.mtimeNs, seen.ctimeNs].join(" ");
}
