// Where the links of a repository lie. A plus sign is legal in no repository name, so these never meet a nested
// repository.

import { join } from "node:path/posix";
import type { Digest } from "@exclave/core";
import { checkRepository, checkTag } from "../../content/content-store.ts";
import { linkName } from "./link-files.ts";

export interface RepositoryPlaces {
  /** Where all that it has lies. */
  repository(repository: string): string;
  blob(repository: string, digest: Digest): string;
  manifest(repository: string, digest: Digest): string;
  tags(repository: string): string;
  tag(repository: string, tag: string): string;
  referrers(repository: string, subject: Digest): string;
  referrer(repository: string, subject: Digest, digest: Digest): string;
}

export const REPOSITORIES = "repositories";
/** What makes a folder a repository. */
export const REPOSITORY_KINDS = ["+tags", "+manifests", "+blobs"];

export function createRepositoryPlaces(): RepositoryPlaces {
  const places: RepositoryPlaces = {
    repository: (repository) => place(repository, ""),
    blob: (repository, digest) => join(place(repository, "+blobs"), linkName(digest)),
    manifest: (repository, digest) => join(place(repository, "+manifests"), linkName(digest)),
    tags: (repository) => place(repository, "+tags"),
    tag(repository, tag) {
      checkTag(tag);
      return join(place(repository, "+tags"), tag);
    },
    referrers: (repository, subject) => join(place(repository, "+referrers"), linkName(subject)),
    referrer: (repository, subject, digest) =>
      join(places.referrers(repository, subject), linkName(digest)),
  };
  return places;

  function place(repository: string, kind: string): string {
    checkRepository(repository);
    return join(REPOSITORIES, repository, kind);
  }
}
