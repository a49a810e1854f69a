// The tags of a repository: files that name a digest. Changes of one tag come one after the other.

import type { Digest } from "@exclave/core";
import { removeDurably } from "@exclave/machine";
import { writeFileDurably } from "../../content/blob-files.ts";
import { linksIn, readTagLink } from "./link-files.ts";
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

export function createRepositoryTags(places: RepositoryPlaces): RepositoryTags {
  const turns = createTurns();

  const tags: RepositoryTags = {
    async list(repository) {
      return (await linksIn(places.tags(repository))).sort();
    },

    read: (repository, tag) => readTagLink(places.tag(repository, tag)),

    async move(repository, tag, digest) {
      const file = places.tag(repository, tag);
      await turns.take(file, () => writeFileDurably(file, digest));
    },

    async remove(repository, tag) {
      const file = places.tag(repository, tag);
      return turns.take(file, () => removeDurably(file));
    },

    async removeAllOf(repository, digest) {
      for (const tag of await tags.list(repository)) {
        const file = places.tag(repository, tag);
        await turns.take(file, async () => {
          if ((await tags.read(repository, tag)) === digest) await removeDurably(file);
        });
      }
    },
  };
  return tags;
}
