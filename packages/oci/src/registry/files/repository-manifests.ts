// Which manifests belong to which repository, on disk: under their digests, their tags and what they are about.

import type { Digest } from "@exclave/core";
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
  parseManifest,
  referrerDescriptor,
  subjectOf,
} from "../../content/descriptor.ts";
import { bytesOf } from "../../content/digest.ts";
import { type ManifestLink, type ReferrersWanted, readManifestType } from "./link-files.ts";
import type { RegistryContent } from "./registry-content.ts";
import type { RegistryTree } from "./registry-tree.ts";
import type { RepositoryBlobs } from "./repository-blobs.ts";
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

export interface ManifestsOptions {
  readonly places: RepositoryPlaces;
  readonly tree: RegistryTree;
  readonly content: RegistryContent;
  readonly blobs: Pick<RepositoryBlobs, "headBlob" | "isKept">;
}

export function createRepositoryManifests(options: ManifestsOptions): RepositoryManifests {
  const { places, tree, content, blobs } = options;
  const tags = createRepositoryTags(places, tree);
  const referrers = createRepositoryReferrers({ places, tree, content, find });
  const turns = createTurns();

  const manifests: RepositoryManifests = {
    headManifest: find,

    async readManifest(repository, reference) {
      const head = await find(repository, reference);
      if (!head) throw missing(`manifest ${reference}`, repository);
      const bytes = await content.readWhole(head.digest);
      if (!bytes) throw missing(`manifest ${reference}`, repository);
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
      const listed = mayLackBlobs ? [] : [...new Set(blobsOf(parsed).map((blob) => blob.digest))];
      const write = () => content.write({ digest, size: bytes.length }, () => bytesOf(bytes));
      await checkBlobs(
        listed,
        repository,
        async (blob) => (await blobs.headBlob(repository, blob)) !== undefined,
      );
      await write();
      const link = places.manifest(repository, digest);
      return turns.take(link, async () => {
        await writeLink(tree, link, { mediaType }, async () => {
          await checkBlobs(listed, repository, (blob) => blobs.isKept(repository, blob));
          // The same manifest, long forgotten, may have been collected just now.
          if (!(await content.isThere(digest))) await write();
        });
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
        const bytes = await content.readWhole(digest);
        const subject = bytes && subjectOf(parseManifest(bytes, head.mediaType))?.digest;
        if (subject) await referrers.remove(repository, subject, digest);
        return tree.remove(link);
      });
    },
  };
  return manifests;

  async function find(repository: string, reference: string): Promise<ManifestHead | undefined> {
    const digest = isDigest(reference) ? reference : await tags.read(repository, reference);
    if (!digest) return undefined;
    const mediaType = await readManifestType(tree, places.manifest(repository, digest));
    if (mediaType === undefined) return undefined;
    const size = await content.size(digest);
    return size === undefined ? undefined : { digest, mediaType, size };
  }
}

/** From the link on its blobs are safe; but one may have been deleted while it was written: `check` verifies them. */
async function writeLink(
  tree: RegistryTree,
  link: string,
  content: ManifestLink,
  check: () => Promise<void>,
): Promise<void> {
  const isNew = (await tree.modifiedAt(link)) === undefined;
  await tree.write(link, JSON.stringify(content));
  try {
    await check();
  } catch (reason) {
    if (isNew) await tree.remove(link);
    throw reason;
  }
}

async function checkBlobs(
  listed: readonly Digest[],
  repository: string,
  isHere: (blob: Digest) => Promise<boolean>,
): Promise<void> {
  for (const digest of listed) {
    if (await isHere(digest)) continue;
    throw missing(`blob ${digest}, which the manifest needs,`, repository);
  }
}
