// The registry on disk. Content lies once, under its digest; a repository is a tree of small link
// files that say what of it belongs there, and these links alone decide what the repository shows.
// A link is made after its content is durable, so a crash leaves at worst content without a link.
//
//   blobs/<algorithm>/<hex>                            content, of blobs and manifests alike
//   repositories/<name>/+blobs/<digest>                this repository has the blob
//   repositories/<name>/+manifests/<digest>            … the manifest, with its media type
//   repositories/<name>/+tags/<tag>                    digest
//   repositories/<name>/+referrers/<subject>/<digest>  descriptor of a manifest about another
//   tmp/                                               uploads under way

import { readdir, readFile, stat, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Digest } from "@exclave/core";
import {
  markDurably,
  removeDurably,
  renameMaking,
  syncDirectory,
  unlessAbsent,
} from "@exclave/machine";
import {
  type BlobFiles,
  createBlobFiles,
  readFileIfThere,
  writeFileDurably,
} from "../content/blob-files.ts";
import {
  type ContentStore,
  checkRepository,
  checkTag,
  isDigest,
  type ManifestHead,
  manifestDigest,
  missing,
  type StoredManifest,
} from "../content/content-store.ts";
import {
  acceptManifest,
  blobsOf,
  type Descriptor,
  type ParsedManifest,
  parseManifest,
  referrerDescriptor,
  subjectOf,
} from "../content/descriptor.ts";
import { bytesOf } from "../content/digest.ts";
import {
  linkName,
  linksIn,
  type ManifestLink,
  type ReferrersWanted,
  readManifestType,
  readReferrers,
} from "./link-files.ts";
import { createTurns } from "./turns.ts";

export interface RegistryFiles extends ContentStore {
  readonly blobs: BlobFiles;
  /** Says that a repository has a blob whose content is here already; false if it is not. */
  linkBlob(repository: string, digest: Digest): Promise<boolean>;
  /** Takes over a synced file whose bytes are known to have this digest. */
  keepBlob(repository: string, digest: Digest, file: string): Promise<void>;
  /** A manifest under a digest of the writer's choice of algorithm. Returns its subject. */
  putManifest(
    repository: string,
    manifest: StoredManifest,
    tags: readonly string[],
    options?: { readonly mayLackBlobs?: boolean },
  ): Promise<Digest | undefined>;
  /** Referrers in the order of their digests, read as they are asked for. */
  listReferrers(
    repository: string,
    subject: Digest,
    wanted: ReferrersWanted,
  ): AsyncIterable<Descriptor>;
  /** False when there was nothing to take away. */
  unlinkBlob(repository: string, digest: Digest): Promise<boolean>;
  unlinkManifest(repository: string, digest: Digest): Promise<boolean>;
  untag(repository: string, tag: string): Promise<boolean>;
  hasRepository(repository: string): Promise<boolean>;
  repositories(): Promise<string[]>;
}

/**
 * A link that was looked at lately may be about to be built upon, so garbage collection spares it.
 * It is marked as looked at no more often than this.
 */
export const FRESH_MS = 60 * 60 * 1_000;

export function createRegistryFiles(directory: string): RegistryFiles {
  const blobs = createBlobFiles(directory);
  const turns = createTurns();

  const files: RegistryFiles = {
    blobs,

    async headBlob(repository, digest) {
      const link = blobLink(repository, digest);
      const found = await unlessAbsent(stat(link));
      if (!found) return undefined;
      const now = new Date();
      if (now.getTime() - found.mtimeMs > FRESH_MS) await unlessAbsent(utimes(link, now, now));
      return blobs.size(digest);
    },

    async headManifest(repository, reference) {
      return findManifest(repository, reference);
    },

    async *readBlob(repository, digest, { from = 0 } = {}) {
      const size = await files.headBlob(repository, digest);
      if (size === undefined) throw missing(`blob ${digest}`, repository);
      yield* blobs.read(digest, { from });
    },

    async writeBlob(repository, descriptor, source, { signal } = {}) {
      if ((await files.headBlob(repository, descriptor.digest)) !== undefined) return;
      await blobs.write(descriptor, source, signal);
      await markDurably(blobLink(repository, descriptor.digest));
    },

    async linkBlob(repository, digest) {
      const link = blobLink(repository, digest);
      if ((await blobs.size(digest)) === undefined) return false;
      await markDurably(link);
      // Content that nothing pointed at may have been collected until just now.
      if ((await blobs.size(digest)) !== undefined) return true;
      await removeDurably(link);
      return false;
    },

    async keepBlob(repository, digest, file) {
      const place = blobs.path(digest);
      await renameMaking(file, place);
      // Seen only when both are there, so neither has to wait for the other.
      await Promise.all([syncDirectory(dirname(place)), markDurably(blobLink(repository, digest))]);
    },

    async readManifest(repository, reference) {
      const head = await findManifest(repository, reference);
      if (!head) throw missing(`manifest ${reference}`, repository);
      const bytes = await readFile(blobs.path(head.digest));
      return { bytes, mediaType: head.mediaType, digest: head.digest };
    },

    async writeManifest(repository, bytes, mediaType, tag, { digest: expected } = {}) {
      if (tag !== undefined) checkTag(tag);
      const digest = manifestDigest(bytes, expected);
      await files.putManifest(repository, { bytes, mediaType, digest }, tag ? [tag] : []);
      return digest;
    },

    async putManifest(repository, manifest, tags, { mayLackBlobs = false } = {}) {
      const { bytes, mediaType, digest } = manifest;
      const parsed = acceptManifest(bytes, mediaType);
      if (!mayLackBlobs) await checkBlobs(repository, parsed);
      await blobs.write({ digest, size: bytes.length }, () => bytesOf(bytes));
      const link = manifestLink(repository, digest);
      return turns.take(link, async () => {
        const isNew = (await unlessAbsent(stat(link))) === undefined;
        await writeFileDurably(link, JSON.stringify({ mediaType } satisfies ManifestLink));
        try {
          // From here on its blobs are safe; but one may have been deleted while this was written.
          if (!mayLackBlobs) await checkBlobs(repository, parsed);
        } catch (reason) {
          if (isNew) await removeDurably(link);
          throw reason;
        }
        const subject = subjectOf(parsed)?.digest;
        if (subject !== undefined) {
          const entry = referrerDescriptor(parsed, { mediaType, digest, size: bytes.length });
          const file = join(referrersOf(repository, subject), linkName(digest));
          await writeFileDurably(file, JSON.stringify(entry));
        }
        for (const tag of tags) {
          const file = tagFile(repository, tag);
          await turns.take(file, () => writeFileDurably(file, digest));
        }
        return subject;
      });
    },

    async mountBlob(from, to, digest) {
      if ((await files.headBlob(from, digest)) === undefined) return false;
      return files.linkBlob(to, digest);
    },

    async tags(repository) {
      return (await linksIn(place(repository, "+tags"))).sort();
    },

    async referrers(repository, digest, { artifactType } = {}) {
      const found: Descriptor[] = [];
      for await (const entry of files.listReferrers(repository, digest, { artifactType })) {
        found.push(entry);
      }
      return found;
    },

    listReferrers(repository, digest, wanted) {
      return readReferrers(referrersOf(repository, digest), wanted);
    },

    async unlinkBlob(repository, digest) {
      return removeDurably(blobLink(repository, digest));
    },

    async unlinkManifest(repository, digest) {
      const link = manifestLink(repository, digest);
      return turns.take(link, async () => {
        const head = await findManifest(repository, digest);
        if (!head) return false;
        for (const tag of await files.tags(repository)) await untagFrom(repository, tag, digest);
        const parsed = parseManifest(await readFile(blobs.path(digest)), head.mediaType);
        const subject = subjectOf(parsed)?.digest;
        if (subject) await removeDurably(join(referrersOf(repository, subject), linkName(digest)));
        return removeDurably(link);
      });
    },

    async untag(repository, tag) {
      const file = tagFile(repository, tag);
      return turns.take(file, () => removeDurably(file));
    },

    async hasRepository(repository) {
      const kinds = ["+tags", "+manifests", "+blobs"].map((kind) => place(repository, kind));
      const found = await Promise.all(kinds.map((kind) => unlessAbsent(stat(kind))));
      return found.some((kind) => kind !== undefined);
    },

    async repositories() {
      return repositoriesBelow(join(directory, "repositories"));
    },
  };
  return files;

  async function checkBlobs(repository: string, parsed: ParsedManifest): Promise<void> {
    for (const digest of new Set(blobsOf(parsed).map((blob) => blob.digest))) {
      if ((await files.headBlob(repository, digest)) !== undefined) continue;
      throw missing(`blob ${digest}, which the manifest needs,`, repository);
    }
  }

  /** A tag that has moved on in the meantime stays. */
  async function untagFrom(repository: string, tag: string, digest: Digest): Promise<void> {
    const file = tagFile(repository, tag);
    await turns.take(file, async () => {
      if ((await readTag(repository, tag)) === digest) await removeDurably(file);
    });
  }

  async function findManifest(
    repository: string,
    reference: string,
  ): Promise<ManifestHead | undefined> {
    const digest = isDigest(reference) ? reference : await readTag(repository, reference);
    if (!digest) return undefined;
    const mediaType = await readManifestType(manifestLink(repository, digest));
    if (mediaType === undefined) return undefined;
    const size = await blobs.size(digest);
    return size === undefined ? undefined : { digest, mediaType, size };
  }

  async function readTag(repository: string, tag: string): Promise<Digest | undefined> {
    return (await readFileIfThere(tagFile(repository, tag)))?.toString("utf8") as
      | Digest
      | undefined;
  }

  // A plus sign is legal in no repository name, so these never meet a nested repository.
  function place(repository: string, kind: string): string {
    checkRepository(repository);
    return join(directory, "repositories", repository, kind);
  }
  function blobLink(repository: string, digest: Digest): string {
    return join(place(repository, "+blobs"), linkName(digest));
  }
  function manifestLink(repository: string, digest: Digest): string {
    return join(place(repository, "+manifests"), linkName(digest));
  }
  function referrersOf(repository: string, subject: Digest): string {
    return join(place(repository, "+referrers"), linkName(subject));
  }
  function tagFile(repository: string, tag: string): string {
    checkTag(tag);
    return join(place(repository, "+tags"), tag);
  }
}

async function repositoriesBelow(directory: string, prefix = ""): Promise<string[]> {
  const entries = (await unlessAbsent(readdir(directory))) ?? [];
  const nested = entries
    .filter((name) => !name.startsWith("+"))
    .map((name) => repositoriesBelow(join(directory, name), `${prefix}${name}/`));
  const isOne = prefix !== "" && nested.length < entries.length;
  return [...(isOne ? [prefix.slice(0, -1)] : []), ...(await Promise.all(nested)).flat()];
}
