// Damage on the registry's disk: a flipped byte, a file that is gone. Whoever doubts asks for a manifest to
// be verified (`HEAD …/manifests/<digest>?verify=true`). Content that does not have its digest is moved
// aside and no longer served, and a manifest that lost something is taken out of its repository, so that
// the next copy finds both missing and brings them again.

import { createHash } from "node:crypto";
import type { Digest } from "@exclave/core";
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
  readonly files: RegistryFiles;
  readonly now: () => number;
  /** Told of everything that is quarantined. */
  readonly onDamage: (digest: Digest) => void;
}

/** Content that many manifests share is hashed once in this time, unless its file was changed since. */
const TRUSTED_MS = 60_000;
const TRUSTED_MAX = 10_000;

export function createQuarantine(options: QuarantineOptions): Quarantine {
  const { files, now, onDamage } = options;
  const { blobs } = files;
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
    const file = await blobs.stamp(digest);
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
    await blobs.isolate(digest, now());
    onDamage(digest);
  }
}
