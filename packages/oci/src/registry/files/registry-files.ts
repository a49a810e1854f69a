// The registry on disk, or in an object store under the same names. Content lies once, under its digest; a repository is a tree of small link
// files that say what of it belongs there, and these links alone decide what the repository shows.
// A link is made after its content is durable, so a crash leaves at worst content without a link.
//
//   blobs/<algorithm>/<hex>                            content, of blobs and manifests alike
//   repositories/<name>/+blobs/<digest>                this repository has the blob
//   repositories/<name>/+manifests/<digest>            … the manifest, with its media type
//   repositories/<name>/+tags/<tag>                    digest
//   repositories/<name>/+referrers/<subject>/<digest>  descriptor of a manifest about another
//   tmp/                                               uploads under way

import type { ContentStore } from "../../content/content-store.ts";
import type { ObjectStore } from "../../objects/object-store.ts";
import { createObjectContent } from "./object-content.ts";
import { createObjectTree } from "./object-tree.ts";
import { createFileContent, type FileContent, type RegistryContent } from "./registry-content.ts";
import { createFileTree, type RegistryTree } from "./registry-tree.ts";
import { createRepositoryBlobs, type RepositoryBlobs } from "./repository-blobs.ts";
import { createRepositoryManifests, type RepositoryManifests } from "./repository-manifests.ts";
import { createRepositoryPlaces, REPOSITORIES, REPOSITORY_KINDS } from "./repository-places.ts";

export interface RegistryFiles extends ContentStore, RepositoryBlobs, RepositoryManifests {
  readonly blobs: RegistryContent;
  readonly tree: RegistryTree;
  hasRepository(repository: string): Promise<boolean>;
  repositories(): Promise<string[]>;
}

/** In files, content has a place that can be looked at. */
export interface RegistryFilesOnDisk extends RegistryFiles {
  readonly blobs: FileContent;
}

/** With a store, the directory has uploads under way alone. */
export function createRegistryFiles(directory: string): RegistryFilesOnDisk;
export function createRegistryFiles(directory: string, objects?: ObjectStore): RegistryFiles;
export function createRegistryFiles(directory: string, objects?: ObjectStore): RegistryFiles {
  const tree = objects ? createObjectTree(objects) : createFileTree(directory);
  const content = objects
    ? createObjectContent(objects, tree, directory)
    : createFileContent(directory);
  const places = createRepositoryPlaces();
  const blobs = createRepositoryBlobs(places, tree, content);

  return {
    blobs: content,
    tree,
    ...blobs,
    ...createRepositoryManifests({ places, tree, content, blobs }),

    async hasRepository(repository) {
      const found = await tree.folders(places.repository(repository));
      return found.some((kind) => REPOSITORY_KINDS.includes(kind));
    },

    repositories: () => repositoriesBelow(tree, REPOSITORIES),
  };
}

async function repositoriesBelow(
  tree: Pick<RegistryTree, "folders">,
  folder: string,
  prefix = "",
): Promise<string[]> {
  const entries = await tree.folders(folder);
  const nested = entries
    .filter((name) => !name.startsWith("+"))
    .map((name) => repositoriesBelow(tree, `${folder}/${name}`, `${prefix}${name}/`));
  const isOne = prefix !== "" && nested.length < entries.length;
  return [...(isOne ? [prefix.slice(0, -1)] : []), ...(await Promise.all(nested)).flat()];
}
