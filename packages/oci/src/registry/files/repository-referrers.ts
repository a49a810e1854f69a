// What manifests of a repository are about others of it: entries that were written beside them, so that a list
// of them reads no manifest. An entry that was damaged on disk is made anew from the manifest.

import type { Digest } from "@exclave/core";
import type { ManifestHead } from "../../content/content-store.ts";
import { type Descriptor, parseManifest, referrerDescriptor } from "../../content/descriptor.ts";
import { hasDigest } from "../../content/digest.ts";
import { type ReferrersWanted, readReferrers } from "./link-files.ts";
import type { RegistryContent } from "./registry-content.ts";
import type { RegistryTree } from "./registry-tree.ts";
import type { RepositoryPlaces } from "./repository-places.ts";

export interface RepositoryReferrers {
  list(repository: string, subject: Digest, wanted: ReferrersWanted): AsyncIterable<Descriptor>;
  put(repository: string, subject: Digest, entry: Descriptor): Promise<void>;
  remove(repository: string, subject: Digest, referrer: Digest): Promise<boolean>;
}

export interface ReferrersOptions {
  readonly places: RepositoryPlaces;
  readonly tree: RegistryTree;
  readonly content: Pick<RegistryContent, "readWhole">;
  readonly find: (repository: string, reference: string) => Promise<ManifestHead | undefined>;
}

export function createRepositoryReferrers(options: ReferrersOptions): RepositoryReferrers {
  const { places, tree, content, find } = options;

  return {
    list: (repository, subject, wanted) =>
      readReferrers(tree, places.referrers(repository, subject), wanted, async (referrer) => {
        const entry = await describe(repository, referrer);
        if (entry) await put(repository, subject, entry);
        return entry;
      }),
    put,
    remove: (repository, subject, referrer) =>
      tree.remove(places.referrer(repository, subject, referrer)),
  };

  async function put(repository: string, subject: Digest, entry: Descriptor): Promise<void> {
    const file = places.referrer(repository, subject, entry.digest);
    await tree.write(file, JSON.stringify(entry));
  }

  /** How the manifest appears in the list, read from itself. */
  async function describe(repository: string, digest: Digest): Promise<Descriptor | undefined> {
    const head = await find(repository, digest);
    if (!head) return undefined;
    const bytes = await content.readWhole(digest);
    if (!bytes || !hasDigest(bytes, digest)) return undefined;
    return referrerDescriptor(parseManifest(bytes, head.mediaType), head);
  }
}
