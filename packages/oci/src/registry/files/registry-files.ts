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

import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { unlessAbsent } from "@exclave/machine";
import { type BlobFiles, createBlobFiles } from "../../content/blob-files.ts";
import type { ContentStore } from "../../content/content-store.ts";
import { createRepositoryBlobs, type RepositoryBlobs } from "./repository-blobs.ts";
import { createRepositoryManifests, type RepositoryManifests } from "./repository-manifests.ts";
import { createRepositoryPlaces } from "./repository-places.ts";

export interface RegistryFiles extends ContentStore, RepositoryBlobs, RepositoryManifests {
  readonly blobs: BlobFiles;
  hasRepository(repository: string): Promise<boolean>;
  repositories(): Promise<string[]>;
}

export function createRegistryFiles(directory: string): RegistryFiles {
  const repositories = join(directory, "repositories");
  const places = createRepositoryPlaces(repositories);
  const content = createBlobFiles(directory);
  const blobs = createRepositoryBlobs(places, content);

  return {
    blobs: content,
    ...blobs,
    ...createRepositoryManifests(places, content, blobs),

    async hasRepository(repository) {
      const found = await Promise.all(
        places.all(repository).map((kind) => unlessAbsent(stat(kind))),
      );
      return found.some((kind) => kind !== undefined);
    },

    repositories: () => repositoriesBelow(repositories),
  };
}

async function repositoriesBelow(directory: string, prefix = ""): Promise<string[]> {
  const entries = (await unlessAbsent(readdir(directory))) ?? [];
  const nested = entries
    .filter((name) => !name.startsWith("+"))
    .map((name) => repositoriesBelow(join(directory, name), `${prefix}${name}/`));
  const isOne = prefix !== "" && nested.length < entries.length;
  return [...(isOne ? [prefix.slice(0, -1)] : []), ...(await Promise.all(nested)).flat()];
}
