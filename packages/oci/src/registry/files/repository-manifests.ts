// Which manifests belong to which repository, on disk: under their digests, their tags and what they are about.

import { readFile, stat } from "node:fs/promises";
import type { Digest } from "@exclave/core";
import { removeDurably, unlessAbsent } from "@exclave/machine";
import { type BlobFiles, writeFileDurably } from "../../content/blob-files.ts";
import {
  type ContentStore,
  checkTag,
  isDigest,
  type ManifestHead,
  manifestDigest,
  missing,
  type StoredManifest,
} from "../../content/content-store.ts";
import {
  acceptManifest,
  blobsOf,
  type Descriptor,
  type ParsedManifest,
  parseManifest,
  referrerDescriptor,
  subjectOf,
} from "../../content/descriptor.ts";
import { bytesOf } from "../../content/digest.ts";
import { type ManifestLink, type ReferrersWanted, readManifestType } from "./link-files.ts";
import type { RepositoryPlaces } from "./repository-places.ts";
import { createRepositoryReferrers } from "./repository-referrers.ts";
import { createRepositoryTags } from "./repository-tags.ts";
import { createTurns } from "./turns.ts";

export interface RepositoryManifests
  extends Pick<
    ContentStore,
    "headManifest" | "readManifest" | "writeManifest" | "tags" | "referrers"
  > {
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
  unlinkManifest(repository: string, digest: Digest): Promise<boolean>;
  untag(repository: string, tag: string): Promise<boolean>;
}

export function createRepositoryManifests(
  places: RepositoryPlaces,
  content: BlobFiles,
  blobs: Pick<ContentStore, "headBlob">,
): RepositoryManifests {
  const tags = createRepositoryTags(places);
  const referrers = createRepositoryReferrers({ places, content, find });
  const turns = createTurns();

  const manifests: RepositoryManifests = {
    headManifest: find,

    async readManifest(repository, reference) {
      const head = await find(repository, reference);
      if (!head) throw missing(`manifest ${reference}`, repository);
      const bytes = await readFile(content.path(head.digest));
      return { bytes, mediaType: head.mediaType, digest: head.digest };
    },

    async writeManifest(repository, bytes, mediaType, tag, { digest: expected } = {}) {
      if (tag !== undefined) checkTag(tag);
      const digest = manifestDigest(bytes, expected);
      await manifests.putManifest(repository, { bytes, mediaType, digest }, tag ? [tag] : []);
      return digest;
    },

    async putManifest(repository, manifest, named, { mayLackBlobs = false } = {}) {
      const { bytes, mediaType, digest } = manifest;
      const parsed = acceptManifest(bytes, mediaType);
      const check = async () => {
        if (!mayLackBlobs) await checkBlobs(blobs, repository, parsed);
      };
      await check();
      await content.write({ digest, size: bytes.length }, () => bytesOf(bytes));
      const link = places.manifest(repository, digest);
      return turns.take(link, async () => {
        await writeLink(link, { mediaType }, check);
        const subject = subjectOf(parsed)?.digest;
        if (subject !== undefined) {
          const entry = referrerDescriptor(parsed, { mediaType, digest, size: bytes.length });
          await referrers.put(repository, subject, entry);
        }
        for (const tag of named) await tags.move(repository, tag, digest);
        return subject;
      });
    },

    tags: (repository) => tags.list(repository),
    untag: (repository, tag) => tags.remove(repository, tag),

    async referrers(repository, digest, { artifactType } = {}) {
      const found: Descriptor[] = [];
      for await (const entry of manifests.listReferrers(repository, digest, { artifactType })) {
        found.push(entry);
      }
      return found;
    },

    listReferrers: (repository, digest, wanted) => referrers.list(repository, digest, wanted),

    async unlinkManifest(repository, digest) {
      const link = places.manifest(repository, digest);
      return turns.take(link, async () => {
        const head = await find(repository, digest);
        if (!head) return false;
        await tags.removeAllOf(repository, digest);
        const parsed = parseManifest(await readFile(content.path(digest)), head.mediaType);
        const subject = subjectOf(parsed)?.digest;
        if (subject) await referrers.remove(repository, subject, digest);
        return removeDurably(link);
      });
    },
  };
  return manifests;

  async function find(repository: string, reference: string): Promise<ManifestHead | undefined> {
    const digest = isDigest(reference) ? reference : await tags.read(repository, reference);
    if (!digest) return undefined;
    const mediaType = await readManifestType(places.manifest(repository, digest));
    if (mediaType === undefined) return undefined;
    const size = await content.size(digest);
    return size === undefined ? undefined : { digest, mediaType, size };
  }
}

/** From the link on its blobs are safe; but one may have been deleted while it was written: `check` verifies them. */
async function writeLink(
  link: string,
  content: ManifestLink,
  check: () => Promise<void>,
): Promise<void> {
  const isNew = (await unlessAbsent(stat(link))) === undefined;
  await writeFileDurably(link, JSON.stringify(content));
  try {
    await check();
  } catch (reason) {
    if (isNew) await removeDurably(link);
    throw reason;
  }
}

async function checkBlobs(
  blobs: Pick<ContentStore, "headBlob">,
  repository: string,
  parsed: ParsedManifest,
): Promise<void> {
  for (const digest of new Set(blobsOf(parsed).map((blob) => blob.digest))) {
    if ((await blobs.headBlob(repository, digest)) !== undefined) continue;
    throw missing(`blob ${digest}, which the manifest needs,`, repository);
  }
}
