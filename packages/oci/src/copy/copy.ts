// Brings an artifact, whatever it is made of, from one store to another, by digest. What is there is
// not moved again; blobs come before the manifest that needs them, children before their index, and
// the tag last: a destination that stops in the middle has nothing that is not whole.

import { type Digest, Failure } from "@exclave/core";
import type { Sink } from "../client/raw/raw-connection.ts";
import { isRegistryClient } from "../client/registry-client.ts";
import type { ContentStore, ManifestHead } from "../content/content-store.ts";
import { childrenOf, type Descriptor, isIndexType, parseManifest } from "../content/descriptor.ts";
import { type CopyTree, checkPlatforms, readReferrers, readTree } from "./copy-tree.ts";
import { createWindow, runInWindow } from "./copy-window.ts";

export interface CopyArtifact {
  readonly from: ContentStore;
  readonly to: ContentStore;
  readonly source: { readonly repository: string; readonly digest: Digest };
  readonly target: { readonly repository: string; readonly tag?: string | undefined };
  /** Repositories of the destination that may have the same blobs already. */
  readonly mountFrom?: readonly string[];
  /** Brings signatures and the like, too. */
  readonly referrers?: boolean;
  /**
   * Of an index only these (`linux/amd64`, `linux/arm64/v8`). The index itself stays as it is, byte
   * by byte, with children that are not there. `all` brings what an earlier choice left out.
   */
  readonly platforms?: readonly string[] | undefined;
  readonly concurrency?: number;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: (progress: CopyProgress) => void;
}

export interface CopyProgress {
  readonly copiedBytes: number;
  readonly skippedBytes: number;
  readonly totalBytes: number;
  /** Over the whole copy so far. */
  readonly bytesPerSecond: number;
}

export interface CopyResult {
  readonly digest: Digest;
  readonly copiedBytes: number;
  /** Bytes of blobs that the destination had, here or in a repository it could mount from. */
  readonly skippedBytes: number;
  /** The part of the skipped bytes that came from another repository of the destination. */
  readonly mountedBytes: number;
  /** What both sides were asked while it went on; 0 for stores that are not registries. */
  readonly requests: number;
}

const BLOBS_AT_ONCE = 6;
const PROGRESS_EVERY_MS = 100;

export async function copyArtifact(copy: CopyArtifact): Promise<CopyResult> {
  const { digest } = copy.source;
  if (copy.platforms) checkPlatforms(copy.platforms);
  const requestsBefore = requestsOf(copy);
  const meter = createMeter(copy.onProgress);

  const there = await findThere(copy);
  if (!there) await bring(copy, meter);
  else if (copy.referrers) await bringReferrers(copy, there.mediaType, meter);
  return { digest, ...meter.counted, requests: requestsOf(copy) - requestsBefore };
}

/** Asks no more than it must: when the tag is right, nothing else can be missing. */
async function findThere(copy: CopyArtifact): Promise<ManifestHead | undefined> {
  const { from, to, source, target, platforms, signal } = copy;
  const { repository, tag } = target;
  // Somebody who chooses platforms may have chosen fewer the last time.
  if (platforms) return undefined;
  if (tag !== undefined) {
    const tagged = await to.headManifest(repository, tag, { signal });
    if (tagged?.digest === source.digest) return tagged;
  }
  const there = await to.headManifest(repository, source.digest, { signal });
  if (there && tag !== undefined) {
    const { digest } = source;
    const { bytes, mediaType } = await from.readManifest(source.repository, digest, { signal });
    await to.writeManifest(repository, bytes, mediaType, tag, { digest, signal });
  }
  return there;
}

/** What is there may have been signed since, and so may each child of an index. */
async function bringReferrers(copy: CopyArtifact, mediaType: string, meter: Meter): Promise<void> {
  const { from, source, signal } = copy;
  for (const { digest, isListed } of await readReferrers(copy, source.digest)) {
    const referrer = about(copy, digest);
    const there = isListed ? await findThere(referrer) : undefined;
    if (there) await bringReferrers(referrer, there.mediaType, meter);
    else await bring(referrer, meter);
  }
  if (!isIndexType(mediaType)) return;
  const index = await from.readManifest(source.repository, source.digest, { signal });
  for (const child of childrenOf(parseManifest(index.bytes, index.mediaType))) {
    await bringReferrers(about(copy, child.digest), child.mediaType, meter);
  }
}

/** The same copy, of something that has no tag of its own. */
function about(copy: CopyArtifact, digest: Digest): CopyArtifact {
  const { source, target } = copy;
  return {
    ...copy,
    source: { repository: source.repository, digest },
    target: { repository: target.repository },
  };
}

async function bring(copy: CopyArtifact, meter: Meter): Promise<void> {
  const { from, to, source, target, signal } = copy;
  const tree = await readTree(copy);
  const blobs = missingBlobs(tree);
  meter.expect(blobs.reduce((sum, { size }) => sum + size, 0));

  const window = createWindow(copy.concurrency ?? BLOBS_AT_ONCE);
  const narrow = () => window.throttled(performance.now());
  const unlisten = [from, to].map((store) =>
    isRegistryClient(store) ? store.onThrottle(narrow) : () => undefined,
  );
  try {
    await runInWindow(blobs, window, (blob) => copyBlob(copy, blob, meter));
  } finally {
    for (const stop of unlisten) stop();
  }
  for (const { manifest, isThere, isSparse } of tree.toReversed()) {
    const { bytes, mediaType, digest } = manifest;
    // The top manifest comes last, and its tag with it.
    const tag = digest === source.digest ? target.tag : undefined;
    if (isThere && tag === undefined) continue;
    try {
      await to.writeManifest(target.repository, bytes, mediaType, tag, { digest, signal });
    } catch (reason) {
      throw isSparse ? explainSparse(reason, target.repository) : reason;
    }
  }
}

/** The specification lets a registry refuse an index whose children it does not have. */
function explainSparse(reason: unknown, repository: string): unknown {
  if (!(reason instanceof Failure)) return reason;
  const said = reason.details["registryCode"];
  if (typeof said !== "string" || !said.endsWith("UNKNOWN")) return reason;
  return new Failure(
    "invalid",
    `the registry of ${repository} takes an index only with all that it lists: copy without --platform, or to a registry that takes a part`,
    { cause: reason },
  );
}

/** Each once, largest first: the last blob to finish is then a small one. */
function missingBlobs(tree: CopyTree): Descriptor[] {
  const blobs = tree.flatMap(({ blobs, isThere }) => (isThere ? [] : blobs));
  const unique = new Map(blobs.map((blob) => [blob.digest, blob]));
  return [...unique.values()].sort((a, b) => b.size - a.size);
}

async function copyBlob(copy: CopyArtifact, blob: Descriptor, meter: Meter): Promise<void> {
  const { from, to, source, target, signal } = copy;
  const { repository } = target;
  const { digest, size } = blob;
  if ((await to.headBlob(repository, digest, { signal })) !== undefined) {
    return meter.skipped(size);
  }
  const mountFrom = (copy.mountFrom ?? []).filter((name) => name !== repository);

  if (isRegistryClient(to)) {
    const pour = (at: number, sink: Sink) =>
      pourFrom(copy, blob, at, meter.passing(digest, at, sink));
    const how = await to.bringBlob(repository, blob, pour, { signal, mountFrom });
    return how === "mounted" ? meter.mounted(size) : meter.copied(digest, size);
  }
  for (const other of mountFrom) {
    if (await to.mountBlob(other, repository, digest, { signal })) return meter.mounted(size);
  }
  const open = (at: number) => from.readBlob(source.repository, digest, { from: at, signal });
  await to.writeBlob(repository, blob, open, { signal });
  meter.copied(digest, size);
}

async function pourFrom(
  { from, source, signal }: CopyArtifact,
  { digest }: Descriptor,
  at: number,
  sink: Sink,
): Promise<void> {
  const options = { from: at, signal };
  if (isRegistryClient(from)) return from.pourBlob(source.repository, digest, sink, options);
  for await (const chunk of from.readBlob(source.repository, digest, options)) await sink(chunk);
}

function requestsOf({ from, to }: CopyArtifact): number {
  // One client can be both sides.
  const clients = [...new Set([from, to])].filter(isRegistryClient);
  return clients.reduce((sum, { requests }) => sum + requests, 0);
}

/** Counts bytes, and says how it goes, a few times a second and after each blob. */
interface Meter {
  readonly counted: { copiedBytes: number; skippedBytes: number; mountedBytes: number };
  expect(bytes: number): void;
  /** The sink, with what goes through it counted as under way. */
  passing(digest: Digest, from: number, sink: Sink): Sink;
  copied(digest: Digest, size: number): void;
  mounted(size: number): void;
  skipped(size: number): void;
}

function createMeter(onProgress: CopyArtifact["onProgress"]): Meter {
  const counted = { copiedBytes: 0, skippedBytes: 0, mountedBytes: 0 };
  const underWay = new Map<Digest, number>();
  const startedAt = performance.now();
  let saidAt = startedAt;
  let totalBytes = 0;

  return {
    counted,
    expect(bytes) {
      totalBytes += bytes;
    },
    passing(digest, from, sink) {
      let at = from;
      return async (chunk) => {
        await sink(chunk);
        at += chunk.length;
        underWay.set(digest, at);
        if (performance.now() - saidAt >= PROGRESS_EVERY_MS) say();
      };
    },
    copied(digest, size) {
      underWay.delete(digest);
      counted.copiedBytes += size;
      say();
    },
    mounted(size) {
      counted.mountedBytes += size;
      counted.skippedBytes += size;
      say();
    },
    skipped(size) {
      counted.skippedBytes += size;
      say();
    },
  };

  function say(): void {
    if (!onProgress) return;
    saidAt = performance.now();
    const moving = [...underWay.values()].reduce((sum, bytes) => sum + bytes, 0);
    const copiedBytes = counted.copiedBytes + moving;
    const seconds = Math.max((saidAt - startedAt) / 1_000, 0.001);
    const { skippedBytes } = counted;
    const bytesPerSecond = Math.round(copiedBytes / seconds);
    onProgress({ copiedBytes, skippedBytes, totalBytes, bytesPerSecond });
  }
}
