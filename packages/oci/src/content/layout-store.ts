// An OCI image layout on disk: what an air-gap bundle and a materialised artifact are. A layout has
// one pool of blobs, so its repositories share them.

import type { Digest } from "@exclave/core";
import { createBlobFiles } from "./blob-files.ts";
import {
  type ContentStore,
  checkManifestBlobs,
  checkRepository,
  checkTag,
  isDigest,
  manifestDigest,
  missing,
} from "./content-store.ts";
import {
  childrenOf,
  type Descriptor,
  manifestTypeOf,
  parseManifest,
  referrerDescriptor,
  subjectOf,
} from "./descriptor.ts";
import { bytesOf, collect, verified } from "./digest.ts";
import { createLayoutIndex, type LayoutIndexOptions } from "./layout-index.ts";

const MANIFEST_BYTES_MAX = 4 * 1024 * 1024;

export type LayoutStoreOptions = LayoutIndexOptions;

export function createLayoutStore(options: LayoutStoreOptions): ContentStore {
  const files = createBlobFiles(options.directory);
  const index = createLayoutIndex(options);

  const store: ContentStore = {
    async headBlob(_repository, digest) {
      return files.size(digest);
    },

    async headManifest(repository, reference) {
      const entry = await find(repository, reference);
      return entry && { digest: entry.digest, mediaType: entry.mediaType, size: entry.size };
    },

    async *readBlob(repository, digest, { from = 0 } = {}) {
      if ((await files.size(digest)) === undefined) throw missing(`blob ${digest}`, repository);
      yield* files.read(digest, { from });
    },

    async writeBlob(repository, descriptor, source, { signal } = {}) {
      checkRepository(repository);
      if ((await files.size(descriptor.digest)) !== undefined) return;
      await files.write(descriptor, source, signal);
    },

    async readManifest(repository, reference) {
      const entry = await find(repository, reference);
      if (!entry) throw missing(`manifest ${reference}`, repository);
      const bytes = await manifestBytes(entry.digest);
      return { bytes, mediaType: entry.mediaType, digest: entry.digest };
    },

    async writeManifest(repository, bytes, mediaType, tag, { digest: expected } = {}) {
      checkRepository(repository);
      if (tag !== undefined) checkTag(tag);
      const digest = manifestDigest(bytes, expected);
      await checkManifestBlobs(store, repository, bytes, mediaType);
      const descriptor = { mediaType, digest, size: bytes.length };
      await files.write(descriptor, () => bytesOf(bytes));
      const children = new Set(childrenOf(parseManifest(bytes, mediaType)).map((c) => c.digest));
      await index.add({ repository, tag, descriptor, children });
      return digest;
    },

    async mountBlob(_from, to, digest) {
      checkRepository(to);
      return (await files.size(digest)) !== undefined;
    },

    tags: (repository) => index.tags(repository),

    async referrers(repository, digest, { artifactType } = {}) {
      const found = new Map<Digest, Descriptor>();
      for (const entry of await index.entriesOf(repository)) {
        const parsed = parseManifest(await manifestBytes(entry.digest), entry.mediaType);
        if (subjectOf(parsed)?.digest !== digest) continue;
        const referrer = referrerDescriptor(parsed, entry);
        if (artifactType === undefined || referrer.artifactType === artifactType) {
          found.set(entry.digest, referrer);
        }
      }
      return [...found.values()];
    },
  };
  return store;

  async function find(repository: string, reference: string): Promise<Descriptor | undefined> {
    if (!isDigest(reference)) return index.findTagged(repository, reference);
    const listed = (await index.entries()).find((entry) => entry.digest === reference);
    if (listed) return listed;
    // A child of an index is not listed by name: it is a file like any other.
    const size = await files.size(reference);
    if (size === undefined || size > MANIFEST_BYTES_MAX) return undefined;
    try {
      const mediaType = manifestTypeOf(await manifestBytes(reference));
      return { mediaType, digest: reference, size };
    } catch {
      return undefined;
    }
  }

  async function manifestBytes(digest: Digest): Promise<Uint8Array> {
    return collect(verified(files.read(digest), { digest }), MANIFEST_BYTES_MAX);
  }
}
