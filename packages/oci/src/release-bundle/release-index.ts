// A release as it lies in a registry: an index that names every artifact, plugin and the runner, and
// says of each where in a registry it belongs.

import { AppId, AppName, type Digest, Failure, releaseRepository } from "@exclave/core";
import { z } from "zod";
import type { StoredManifest } from "../content/content-store.ts";
import { parseManifest, RepositoryName } from "../content/descriptor.ts";
import { RELEASE_TYPE } from "../formats/media-types.ts";

export interface ReleaseIndex {
  readonly app: string;
  readonly appId: AppId;
  readonly version: string;
  readonly id: string;
  /** Where it lies in every registry, by what it says itself and not by where it was found. */
  readonly repository: string;
  readonly digest: Digest;
  readonly materials: readonly ReleaseMaterial[];
}

export interface ReleaseMaterial {
  readonly name: string;
  readonly repository: string;
  readonly digest: Digest;
}

const About = z.object({
  "org.opencontainers.image.title": AppName,
  "org.opencontainers.image.version": z.string(),
  "dev.exclave.release": z.string(),
  "dev.exclave.app": AppId,
});

const Place = z.object({
  "dev.exclave.material": z.string(),
  "dev.exclave.repository": RepositoryName,
});

export function readReleaseIndex({ bytes, mediaType, digest }: StoredManifest): ReleaseIndex {
  const parsed = parseManifest(bytes, mediaType);
  if (parsed.kind !== "index" || parsed.index.artifactType !== RELEASE_TYPE) {
    throw new Failure("invalid", `${digest} is not a release`);
  }
  const about = About.safeParse(parsed.index.annotations);
  if (!about.success) throw new Failure("invalid", `release ${digest} does not say what it is`);
  const appId = about.data["dev.exclave.app"];
  return {
    app: about.data["org.opencontainers.image.title"],
    appId,
    version: about.data["org.opencontainers.image.version"],
    id: about.data["dev.exclave.release"],
    repository: releaseRepository(appId),
    digest,
    materials: parsed.index.manifests.map((entry) => {
      const place = Place.safeParse(entry.annotations);
      if (!place.success) {
        throw new Failure(
          "invalid",
          `release ${digest} does not say where ${entry.digest} belongs; release the app again`,
        );
      }
      return {
        name: place.data["dev.exclave.material"],
        repository: place.data["dev.exclave.repository"],
        digest: entry.digest,
      };
    }),
  };
}
