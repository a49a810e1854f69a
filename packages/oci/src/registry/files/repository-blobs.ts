// Which blobs belong to which repository, on disk.

import type { Digest } from "@exclave/core";
import { type ContentStore, missing } from "../../content/content-store.ts";
import type { RegistryContent } from "./registry-content.ts";
import type { RegistryTree } from "./registry-tree.ts";
import type { RepositoryPlaces } from "./repository-places.ts";

export interface RepositoryBlobs
  extends Pick<ContentStore, "headBlob" | "readBlob" | "writeBlob" | "mountBlob"> {
  /** Says that a repository has a blob whose content is here already; false if it is not. */
  linkBlob(repository: string, digest: Digest): Promise<boolean>;
  /** Takes over a synced file whose bytes are known to have this digest. */
  keepBlob(repository: string, digest: Digest, file: string): Promise<void>;
  /** Whether the repository has the blob and it stays: for whoever has said durably that they build on it. */
  isKept(repository: string, digest: Digest): Promise<boolean>;
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
  tree: RegistryTree,
  content: RegistryContent,
): RepositoryBlobs {
  const blobs: RepositoryBlobs = {
    async headBlob(repository, digest) {
      const link = places.blob(repository, digest);
      const modifiedAt = await tree.modifiedAt(link);
      if (modifiedAt === undefined) return undefined;
      if (Date.now() - modifiedAt > FRESH_MS) await tree.touch(link);
      return content.size(digest);
    },

    async *readBlob(repository, digest, { from = 0 } = {}) {
      const size = await blobs.headBlob(repository, digest);
      if (size === undefined) throw missing(`blob ${digest}`, repository);
      yield* content.read(digest, { from });
    },

    async writeBlob(repository, descriptor, source, { signal } = {}) {
      if ((await blobs.headBlob(repository, descriptor.digest)) !== undefined) return;
      const { digest } = descriptor;
      await content.write(descriptor, source, signal);
      // Content of the same bytes, long forgotten, may have been collected just now.
      if (!(await blobs.linkBlob(repository, digest))) throw missing(`blob ${digest}`, repository);
    },

    async linkBlob(repository, digest) {
      const link = places.blob(repository, digest);
      if ((await content.size(digest)) === undefined) return false;
      await tree.mark(link);
      // Content that nothing pointed at may have been collected until just now.
      if (await content.isThere(digest)) return true;
      await tree.remove(link);
      return false;
    },

    async keepBlob(repository, digest, file) {
      await content.keep(file, digest, () => tree.mark(places.blob(repository, digest)));
    },

    async isKept(repository, digest) {
      if (!(await tree.isThere(places.blob(repository, digest)))) return false;
      return (await content.size(digest)) !== undefined;
    },

    async mountBlob(from, to, digest) {
      if ((await blobs.headBlob(from, digest)) === undefined) return false;
      return blobs.linkBlob(to, digest);
    },

    async unlinkBlob(repository, digest) {
      return tree.remove(places.blob(repository, digest));
    },
  };
  return blobs;
}
