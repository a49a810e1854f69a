// Brings an artifact, whatever it is made of, from one store to another, by digest. What is there is
// not moved again; blobs come before the manifest that needs them, children before their index, and
// the tag last: a destination that stops in the middle has nothing that is not whole.

import type { Digest } from "@exclave/core";
import type { ContentStore, StoredManifest } from "./content-store.ts";
import { blobsOf, childrenOf, type Descriptor, parseManifest } from "./descriptor.ts";

export interface CopyArtifact {
  readonly from: ContentStore;
  readonly to: ContentStore;
  readonly source: { readonly repository: string; readonly digest: Digest };
  readonly target: { readonly repository: string; readonly tag?: string | undefined };
  /** Repositories of the destination that may have the same blobs already. */
  readonly mountFrom?: readonly string[];
  /** Brings signatures and the like, too. */
  readonly referrers?: boolean;
  readonly concurrency?: number;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: (progress: CopyProgress) => void;
}

export interface CopyProgress {
  readonly copiedBytes: number;
  readonly skippedBytes: number;
  readonly totalBytes: number;
}

export interface CopyResult {
  readonly digest: Digest;
  readonly copiedBytes: number;
  /** Bytes of blobs that the destination had, here or in a repository it could mount from. */
  readonly skippedBytes: number;
}

const BLOBS_AT_ONCE = 6;

export async function copyArtifact(copy: CopyArtifact): Promise<CopyResult> {
  const { to, target, signal } = copy;
  const { digest } = copy.source;
  const counted = { copiedBytes: 0, skippedBytes: 0 };

  if (await to.headManifest(target.repository, digest, { signal })) {
    await moveTag(copy);
    return { digest, ...(await bringReferrers(copy, counted)) };
  }

  const tree = await readTree(copy);
  const blobs = uniqueBlobs(tree);
  const totalBytes = blobs.reduce((sum, { size }) => sum + size, 0);
  await inParallel(blobs, copy.concurrency ?? BLOBS_AT_ONCE, async (blob) => {
    const isMoved = await copyBlob(copy, blob);
    counted[isMoved ? "copiedBytes" : "skippedBytes"] += blob.size;
    copy.onProgress?.({ ...counted, totalBytes });
  });
  for (const manifest of tree.toReversed()) {
    const { bytes, mediaType } = manifest;
    // The top manifest comes last, and its tag with it.
    const tag = manifest.digest === digest ? target.tag : undefined;
    await to.writeManifest(target.repository, bytes, mediaType, tag, { signal });
  }
  return { digest, ...counted };
}

async function moveTag({ from, to, source, target, signal }: CopyArtifact): Promise<void> {
  if (target.tag === undefined) return;
  const tagged = await to.headManifest(target.repository, target.tag, { signal });
  if (tagged?.digest === source.digest) return;
  const { bytes, mediaType } = await from.readManifest(source.repository, source.digest, {
    signal,
  });
  await to.writeManifest(target.repository, bytes, mediaType, target.tag, { signal });
}

/** What is there may have been signed since: referrers are looked for even then. */
async function bringReferrers(
  copy: CopyArtifact,
  counted: { copiedBytes: number; skippedBytes: number },
): Promise<typeof counted> {
  if (!copy.referrers) return counted;
  const { from, source, signal } = copy;
  for (const { digest } of await from.referrers(source.repository, source.digest, { signal })) {
    const result = await copyArtifact({
      ...copy,
      source: { repository: source.repository, digest },
      target: { repository: copy.target.repository },
    });
    counted.copiedBytes += result.copiedBytes;
    counted.skippedBytes += result.skippedBytes;
  }
  return counted;
}

/** Every manifest of the artifact, each one after those that list it or that it is about. */
async function readTree(copy: CopyArtifact): Promise<StoredManifest[]> {
  const { from, source, signal } = copy;
  const found = new Map<Digest, StoredManifest>();
  await visit(source.digest);
  return [...found.values()];

  async function visit(digest: Digest): Promise<void> {
    const manifest =
      found.get(digest) ?? (await from.readManifest(source.repository, digest, { signal }));
    // Met again, it moves behind its newest parent, so that reversed it still comes first.
    found.delete(digest);
    found.set(digest, manifest);
    for (const child of childrenOf(parseManifest(manifest.bytes, manifest.mediaType))) {
      await visit(child.digest);
    }
    if (!copy.referrers) return;
    for (const referrer of await from.referrers(source.repository, digest, { signal })) {
      if (!found.has(referrer.digest)) await visit(referrer.digest);
    }
  }
}

/** Largest first: the last blob to finish is then a small one. */
function uniqueBlobs(tree: readonly StoredManifest[]): Descriptor[] {
  const blobs = tree.flatMap(({ bytes, mediaType }) => blobsOf(parseManifest(bytes, mediaType)));
  const unique = new Map(blobs.map((blob) => [blob.digest, blob]));
  return [...unique.values()].sort((a, b) => b.size - a.size);
}

/** Whether bytes had to move. */
async function copyBlob(copy: CopyArtifact, blob: Descriptor): Promise<boolean> {
  const { from, to, source, target, signal } = copy;
  const { digest } = blob;
  if ((await to.headBlob(target.repository, digest, { signal })) !== undefined) return false;
  for (const repository of copy.mountFrom ?? []) {
    if (repository === target.repository) continue;
    if (await to.mountBlob(repository, target.repository, digest, { signal })) return false;
  }
  await to.writeBlob(
    target.repository,
    blob,
    (at) => from.readBlob(source.repository, digest, { from: at, signal }),
    { signal },
  );
  return true;
}

/** The first failure stops what has not begun, and is thrown when the rest has ended. */
async function inParallel<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = items.values();
  let failed: { reason: unknown } | undefined;
  async function worker(): Promise<void> {
    for (const item of waiting) {
      if (failed) return;
      try {
        await work(item);
      } catch (reason) {
        failed ??= { reason };
      }
    }
  }
  await Promise.all(Array.from({ length: limit }, worker));
  if (failed) throw failed.reason;
}
