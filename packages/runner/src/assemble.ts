// Writes a release: one OCI index that lists every component's artifact and every plugin, complete in
// its own repository, so that copying the index is copying the release.

import {
  canonicalBytes,
  type Digest,
  type JobDocument,
  type JobLine,
  REPOSITORY_ANNOTATION,
} from "@exclave/core";
import {
  type ContentStore,
  copyArtifact,
  type Descriptor,
  MEDIA_TYPES,
  RELEASE_TYPE,
} from "@exclave/oci";
import { z } from "zod";

/** On each entry of a release: what it is in the release. */
export const MATERIAL_ANNOTATION = "dev.exclave.material";

const Parameters = z.object({
  annotations: z.record(z.string(), z.string()).default({}),
  tag: z.string().optional(),
});

export interface AssembleOptions {
  readonly from: ContentStore;
  readonly to: ContentStore;
  /** Where the release and everything it lists is written. */
  readonly repository: string;
  readonly materials: JobDocument["materials"];
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
  readonly write: (line: JobLine) => void;
}

export async function assemble(options: AssembleOptions): Promise<Digest> {
  const { from, to, repository, materials, signal, write } = options;
  const { annotations, tag } = Parameters.parse(options.parameters);

  const manifests: Descriptor[] = [];
  for (const [index, material] of materials.entries()) {
    const message = `add ${material.name}`;
    write({ type: "progress", message, done: index, total: materials.length });
    const { name, ...source } = material;
    const mountFrom = [source.repository];
    await copyArtifact({ from, to, source, target: { repository }, mountFrom, signal });
    const { bytes, mediaType } = await to.readManifest(repository, source.digest, { signal });
    manifests.push({
      mediaType,
      digest: source.digest,
      size: bytes.length,
      annotations: { [MATERIAL_ANNOTATION]: name, [REPOSITORY_ANNOTATION]: source.repository },
    });
  }

  const index = canonicalBytes({
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.index,
    artifactType: RELEASE_TYPE,
    manifests,
    annotations,
  });
  const digest = await to.writeManifest(repository, index, MEDIA_TYPES.index, tag, { signal });
  write({ type: "artifact", name: "release", repository, digest, sizeBytes: index.length });
  return digest;
}
