// Content in memory: for tests, and for small things on their way.

import type { Digest } from "@exclave/core";
import {
  type ContentStore,
  checkManifestBlobs,
  checkRepository,
  checkTag,
  isDigest,
  manifestDigest,
  missing,
  type StoredManifest,
} from "./content-store.ts";
import { type Descriptor, parseManifest, referrerDescriptor, subjectOf } from "./descriptor.ts";
import { type ByteSource, collect, openSource, verified } from "./digest.ts";

interface Repository {
  readonly blobs: Map<Digest, Uint8Array>;
  readonly manifests: Map<Digest, StoredManifest>;
  readonly tags: Map<string, Digest>;
}

export function createMemoryStore(): ContentStore {
  const repositories = new Map<string, Repository>();

  const store: ContentStore = {
    async headBlob(repository, digest) {
      return repositories.get(repository)?.blobs.get(digest)?.length;
    },

    async headManifest(repository, reference) {
      const found = find(repository, reference);
      if (!found) return undefined;
      return { digest: found.digest, mediaType: found.mediaType, size: found.bytes.length };
    },

    async *readBlob(repository, digest, { from = 0 } = {}) {
      const bytes = repositories.get(repository)?.blobs.get(digest);
      if (!bytes) throw missing(`blob ${digest}`, repository);
      yield bytes.subarray(from);
    },

    async writeBlob(repository, descriptor, source: ByteSource) {
      const { blobs } = ensure(repository);
      if (blobs.has(descriptor.digest)) return;
      blobs.set(
        descriptor.digest,
        await collect(verified(openSource(source), descriptor), Number.MAX_SAFE_INTEGER),
      );
    },

    async readManifest(repository, reference) {
      const found = find(repository, reference);
      if (!found) throw missing(`manifest ${reference}`, repository);
      return found;
    },

    async writeManifest(repository, bytes, mediaType, tag, { digest: expected } = {}) {
      if (tag !== undefined) checkTag(tag);
      const digest = manifestDigest(bytes, expected);
      await checkManifestBlobs(store, repository, bytes, mediaType);
      const { manifests, tags } = ensure(repository);
      manifests.set(digest, { bytes: Uint8Array.from(bytes), mediaType, digest });
      if (tag !== undefined) tags.set(tag, digest);
      return digest;
    },

    async mountBlob(from, to, digest) {
      const bytes = repositories.get(from)?.blobs.get(digest);
      if (bytes) ensure(to).blobs.set(digest, bytes);
      return bytes !== undefined;
    },

    async tags(repository) {
      return [...(repositories.get(repository)?.tags.keys() ?? [])].sort();
    },

    async referrers(repository, digest, { artifactType } = {}) {
      const manifests = [...(repositories.get(repository)?.manifests.values() ?? [])];
      return manifests
        .flatMap((stored): Descriptor[] => {
          const parsed = parseManifest(stored.bytes, stored.mediaType);
          if (subjectOf(parsed)?.digest !== digest) return [];
          return [referrerDescriptor(parsed, { ...stored, size: stored.bytes.length })];
        })
        .filter((entry) => artifactType === undefined || entry.artifactType === artifactType);
    },
  };
  return store;

  function find(repository: string, reference: string): StoredManifest | undefined {
    const there = repositories.get(repository);
    const digest = isDigest(reference) ? reference : there?.tags.get(reference);
    return digest && there?.manifests.get(digest);
  }

  function ensure(repository: string): Repository {
    checkRepository(repository);
    const there = repositories.get(repository);
    if (there) return there;
    const made = { blobs: new Map(), manifests: new Map(), tags: new Map() };
    repositories.set(repository, made);
    return made;
  }
}
