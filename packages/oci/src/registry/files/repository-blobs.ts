// Which blobs belong to which repository, on disk.

import { stat, utimes } from "node:fs/promises";
import { dirname } from "node:path";
import type { Digest } from "@exclave/core";
import {
  markDurably,
  removeDurably,
  renameMaking,
  syncDirectory,
  unlessAbsent,
} from "@exclave/machine";
import type { BlobFiles } from "../../content/blob-files.ts";
import { type ContentStore, missing } from "../../content/content-store.ts";
import type { RepositoryPlaces } from "./repository-places.ts";

export interface RepositoryBlobs
  extends Pick<ContentStore, "headBlob" | "readBlob" | "writeBlob" | "mountBlob"> {
  /** Says that a repository has a blob whose content is here already; false if it is not. */
  linkBlob(repository: string, digest: Digest): Promise<boolean>;
  /** Takes over a synced file whose bytes are known to have this digest. */
  keepBlob(repository: string, digest: Digest, file: string): Promise<void>;
  /** False when there was nothing to take away. */
  unlinkBlob(repository: string, digest: Digest): Promise<boolean>;
}

/**
 * A link that was looked at lately may be about to be built upon, so garbage collection spares it.
 * It is marked as looked at no more often than this.
 */
const FRESH_MS = 60 * 60 * 1_000;

export function createRepositoryBlobs(
  places: RepositoryPlaces,
  content: BlobFiles,
): RepositoryBlobs {
  const blobs: RepositoryBlobs = {
    async headBlob(repository, digest) {
      const link = places.blob(repository, digest);
      const found = await unlessAbsent(stat(link));
      if (!found) return undefined;
      const now = new Date();
      if (now.getTime() - found.mtimeMs > FRESH_MS) await unlessAbsent(utimes(link, now, now));
      return content.size(digest);
    },

    async *readBlob(repository, digest, { from = 0 } = {}) {
      const size = await blobs.headBlob(repository, digest);
      if (size === undefined) throw missing(`blob ${digest}`, repository);
      yield* content.read(digest, { from });
    },

    async writeBlob(repository, descriptor, source, { signal } = {}) {
      if ((await blobs.headBlob(repository, descriptor.digest)) !== undefined) return;
      await content.write(descriptor, source, signal);
      await markDurably(places.blob(repository, descriptor.digest));
    },

    async linkBlob(repository, digest) {
      const link = places.blob(repository, digest);
      if ((await content.size(digest)) === undefined) return false;
      await markDurably(link);
      // Content that nothing pointed at may have been collected until just now.
      if ((await content.size(digest)) !== undefined) return true;
      await removeDurably(link);
      return false;
    },

    async keepBlob(repository, digest, file) {
      const place = content.path(digest);
      await renameMaking(file, place);
      // Seen only when both are there, so neither has to wait for the other.
      const link = places.blob(repository, digest);
      await Promise.all([syncDirectory(dirname(place)), markDurably(link)]);
    },

    async mountBlob(from, to, digest) {
      if ((await blobs.headBlob(from, digest)) === undefined) return false;
      return blobs.linkBlob(to, digest);
    },

    async unlinkBlob(repository, digest) {
      return removeDurably(places.blob(repository, digest));
    },
  };
  return blobs;
}
