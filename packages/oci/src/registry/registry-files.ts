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

import { readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Digest } from "@exclave/core";
import { z } from "zod";
import {
  type BlobFiles,
  createBlobFiles,
  readFileIfThere,
  unlessAbsent,
  writeFileDurably,
} from "../blob-files.ts";
import {
  type ContentStore,
  checkManifestBlobs,
  checkRepository,
  checkTag,
  isDigest,
  type ManifestHead,
  missing,
  type StoredManifest,
} from "../content-store.ts";
import { Descriptor, parseManifest, referrerDescriptor, subjectOf } from "../descriptor.ts";
import { bytesOf, digestOf, splitDigest } from "../digest.ts";

export interface RegistryFiles extends ContentStore {
  readonly blobs: BlobFiles;
  /** Says that a repository has a blob whose content is already in place. */
  linkBlob(repository: string, digest: Digest): Promise<void>;
  /** A manifest under a digest of the writer's choice of algorithm. */
  putManifest(
    repository: string,
    manifest: StoredManifest,
    tags: readonly string[],
  ): Promise<Digest | undefined>;
  /** False when there was nothing to take away. */
  unlinkBlob(repository: string, digest: Digest): Promise<boolean>;
  unlinkManifest(repository: string, digest: Digest): Promise<boolean>;
  untag(repository: string, tag: string): Promise<boolean>;
  hasRepository(repository: string): Promise<boolean>;
}

const ManifestLink = z.object({ mediaType: z.string() });

export function createRegistryFiles(directory: string): RegistryFiles {
  const blobs = createBlobFiles(directory);

  const files: RegistryFiles = {
    blobs,

    async headBlob(repository, digest) {
      const link = await unlessAbsent(stat(blobLink(repository, digest)));
      return link && blobs.size(digest);
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
      await files.linkBlob(repository, descriptor.digest);
    },

    async linkBlob(repository, digest) {
      await writeFileDurably(blobLink(repository, digest), "");
    },

    async readManifest(repository, reference) {
      const head = await findManifest(repository, reference);
      if (!head) throw missing(`manifest ${reference}`, repository);
      const bytes = await readFile(blobs.path(head.digest));
      return { bytes, mediaType: head.mediaType, digest: head.digest };
    },

    async writeManifest(repository, bytes, mediaType, tag) {
      if (tag !== undefined) checkTag(tag);
      await checkManifestBlobs(files, repository, bytes, mediaType);
      const digest = digestOf(bytes);
      await files.putManifest(repository, { bytes, mediaType, digest }, tag ? [tag] : []);
      return digest;
    },

    async putManifest(repository, { bytes, mediaType, digest }, tags) {
      const parsed = parseManifest(bytes, mediaType);
      await blobs.write({ digest, size: bytes.length }, () => bytesOf(bytes));
      await writeFileDurably(manifestLink(repository, digest), JSON.stringify({ mediaType }));
      const subject = subjectOf(parsed)?.digest;
      if (subject !== undefined) {
        const entry = referrerDescriptor(parsed, { mediaType, digest, size: bytes.length });
        await writeFileDurably(
          join(referrersOf(repository, subject), fileName(digest)),
          JSON.stringify(entry),
        );
      }
      for (const tag of tags) await writeFileDurably(tagFile(repository, tag), digest);
      return subject;
    },

    async mountBlob(from, to, digest) {
      if ((await files.headBlob(from, digest)) === undefined) return false;
      await files.linkBlob(to, digest);
      return true;
    },

    async tags(repository) {
      return (await names(place(repository, "+tags"))).sort();
    },

    async referrers(repository, digest, { artifactType } = {}) {
      const place = referrersOf(repository, digest);
      const entries = await Promise.all(
        (await names(place)).sort().map((name) => readFileIfThere(join(place, name))),
      );
      return entries
        .filter((entry) => entry !== undefined)
        .map((entry) => Descriptor.parse(JSON.parse(entry.toString("utf8"))))
        .filter((entry) => artifactType === undefined || entry.artifactType === artifactType);
    },

    async unlinkBlob(repository, digest) {
      return remove(blobLink(repository, digest));
    },

    async unlinkManifest(repository, digest) {
      const head = await findManifest(repository, digest);
      if (!head) return false;
      for (const tag of await files.tags(repository)) {
        if ((await readTag(repository, tag)) === digest) await files.untag(repository, tag);
      }
      const parsed = parseManifest(await readFile(blobs.path(digest)), head.mediaType);
      const subject = subjectOf(parsed)?.digest;
      if (subject) await remove(join(referrersOf(repository, subject), fileName(digest)));
      return remove(manifestLink(repository, digest));
    },

    async untag(repository, tag) {
      return remove(tagFile(repository, tag));
    },

    async hasRepository(repository) {
      const kinds = ["+tags", "+manifests", "+blobs"].map((kind) => place(repository, kind));
      const found = await Promise.all(kinds.map((kind) => unlessAbsent(stat(kind))));
      return found.some((kind) => kind !== undefined);
    },
  };
  return files;

  async function findManifest(
    repository: string,
    reference: string,
  ): Promise<ManifestHead | undefined> {
    const digest = isDigest(reference) ? reference : await readTag(repository, reference);
    if (!digest) return undefined;
    const link = await readFileIfThere(manifestLink(repository, digest));
    const size = link && (await blobs.size(digest));
    if (!link || size === undefined) return undefined;
    const { mediaType } = ManifestLink.parse(JSON.parse(link.toString("utf8")));
    return { digest, mediaType, size };
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
    return join(place(repository, "+blobs"), fileName(digest));
  }
  function manifestLink(repository: string, digest: Digest): string {
    return join(place(repository, "+manifests"), fileName(digest));
  }
  function referrersOf(repository: string, subject: Digest): string {
    return join(place(repository, "+referrers"), fileName(subject));
  }
  function tagFile(repository: string, tag: string): string {
    checkTag(tag);
    return join(place(repository, "+tags"), tag);
  }
}

function fileName(digest: Digest): string {
  const { algorithm, hex } = splitDigest(digest);
  return `${algorithm}-${hex}`;
}

/** Entries of a directory, without files that are still being written. */
async function names(directory: string): Promise<string[]> {
  const found = (await unlessAbsent(readdir(directory))) ?? [];
  return found.filter((name) => !name.startsWith(":"));
}

async function remove(file: string): Promise<boolean> {
  const there = (await unlessAbsent(stat(file))) !== undefined;
  await rm(file, { force: true });
  return there;
}
