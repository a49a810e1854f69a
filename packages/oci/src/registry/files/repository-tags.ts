// The tags of a repository: files that name a digest. Changes of one tag come one after the other.

import type { Digest } from "@exclave/core";
import { readTagLink } from "./link-files.ts";
import type { RegistryTree } from "./registry-tree.ts";
import type { RepositoryPlaces } from "./repository-places.ts";
import { createTurns } from "./turns.ts";

export interface RepositoryTags {
  /** In lexical order. */
  list(repository: string): Promise<string[]>;
  read(repository: string, tag: string): Promise<Digest | undefined>;
  move(repository: string, tag: string, digest: Digest): Promise<void>;
  /** False when there was no such tag. */
  remove(repository: string, tag: string): Promise<boolean>;
  /** Removes every tag that names this digest; one that has moved on in the meantime stays. */
  removeAllOf(repository: string, digest: Digest): Promise<void>;
}

export function createRepositoryTags(places: RepositoryPlaces, tree: RegistryTree): RepositoryTags {
  const turns = createTurns();

  const tags: RepositoryTags = {
    async list(repository) {
      return (await tree.names(places.tags(repository))).sort();
    },

    read: (repository, tag) => readTagLink(tree, places.tag(repository, tag)),

    async move(repository, tag, digest) {
      const file = places.tag(repository, tag);
      await turns.take(file, () => tree.write(file, digest));
    },

    async remove(repository, tag) {
      const file = places.tag(repository, tag);
      return turns.take(file, () => tree.remove(file));
    },

    async removeAllOf(repository, digest) {
      for (const tag of await tags.list(repository)) {
        const file = places.tag(repository, tag);
        await turns.take(file, async () => {
          if ((await tags.read(repository, tag)) === digest) await tree.remove(file);
        });
      }
    },
  };
  return tags;
}
