// Puts a component's artifact on disk for the plugin: files as files, an image as an OCI layout. All
// of it comes by digest from the registry the job was given, and each byte is checked on the way.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type ArtifactRef, Failure } from "@exclave/core";
import {
  type ContentStore,
  copyArtifact,
  createLayoutStore,
  MEDIA_TYPES,
  parseManifest,
  unpackLayer,
  verified,
} from "@exclave/oci";

export interface Materialised {
  readonly files: string;
  readonly layout?: string;
}

export async function materialiseArtifact(
  registry: ContentStore,
  artifact: ArtifactRef,
  directory: string,
  signal: AbortSignal,
): Promise<Materialised> {
  const { repository, digest } = artifact;
  const files = join(directory, "files");
  await mkdir(files, { recursive: true });

  const { bytes, mediaType } = await registry
    .readManifest(repository, digest, { signal })
    .catch((cause) => {
      const missing = cause instanceof Failure && cause.code === "not_found";
      if (!missing) throw cause;
      throw new Failure("not_synced", `${repository}@${digest} is not in the registry`, { cause });
    });
  const parsed = parseManifest(bytes, mediaType);
  if (parsed.kind === "manifest" && parsed.manifest.layers.every(isFiles)) {
    for (const layer of parsed.manifest.layers) {
      const content = registry.readBlob(repository, layer.digest, { signal });
      await unpackLayer(verified(content, layer), layer.mediaType, files);
    }
    return { files };
  }

  const layout = join(directory, "layout");
  const to = createLayoutStore({ directory: layout });
  const target = { repository };
  await copyArtifact({ from: registry, to, source: artifact, target, signal });
  return { files, layout };
}

function isFiles({ mediaType }: { readonly mediaType: string }): boolean {
  return mediaType === MEDIA_TYPES.files;
}
