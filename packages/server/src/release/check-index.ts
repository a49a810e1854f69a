// Whether the index that a build agent wrote is the release: entry by entry what the release row says,
// and nothing beside. The release key signs only after this; a build shares the build agent's user, so
// what the agent says of an index is not believed.

import {
  type ArtifactRef,
  canonicalBytes,
  digestOfBytes,
  REPOSITORY_ANNOTATION,
} from "@exclave/core";
import { MEDIA_TYPES, parseManifest, RELEASE_TYPE, type StoredManifest } from "@exclave/oci";

export interface ExpectedIndex {
  readonly annotations: Readonly<Record<string, string>>;
  readonly materials: readonly (ArtifactRef & { readonly name: string })[];
}

const MATERIAL_ANNOTATION = "dev.exclave.material";

/** What is wrong with it, in words; undefined when nothing is. */
export function checkIndex(
  { bytes, mediaType, digest }: StoredManifest,
  { annotations, materials }: ExpectedIndex,
): string | undefined {
  if (digestOfBytes(bytes) !== digest) return `the registry does not have ${digest}`;
  if (mediaType !== MEDIA_TYPES.index) return `${digest} is no index`;
  const parsed = parse(bytes, mediaType);
  if (parsed?.kind !== "index") return `${digest} is no index`;

  const { manifests } = parsed.index;
  for (const [place, material] of materials.entries()) {
    const { name, repository } = material;
    const entry = manifests[place];
    if (entry?.digest !== material.digest) {
      return `${name} is ${entry?.digest ?? "missing"} in it, and was built as ${material.digest}`;
    }
    const said = entry.annotations ?? {};
    if (said[MATERIAL_ANNOTATION] !== name || said[REPOSITORY_ANNOTATION] !== repository) {
      return `${material.digest} is not called ${name} of ${repository} in it`;
    }
  }
  if (manifests.length > materials.length) {
    return `it lists ${manifests[materials.length]?.digest}, which is no part of the release`;
  }
  // Sizes and media types are the registry's to check; everything else is known here.
  const expected = canonicalBytes({
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.index,
    artifactType: RELEASE_TYPE,
    manifests: materials.map(({ name, repository, digest: material }, place) => ({
      mediaType: manifests[place]?.mediaType,
      digest: material,
      size: manifests[place]?.size,
      annotations: { [MATERIAL_ANNOTATION]: name, [REPOSITORY_ANNOTATION]: repository },
    })),
    annotations,
  });
  return Buffer.from(expected).equals(bytes) ? undefined : "it says more than a release does";
}

function parse(bytes: Uint8Array, mediaType: string) {
  try {
    return parseManifest(bytes, mediaType);
  } catch {
    return undefined;
  }
}
