// The signature of a release as a bundle may hold it. What is signed is the digest of the release, not
// the manifest around the signature, so nothing else may ride on that: one small layer, nothing more.

import type { Digest } from "@exclave/core";
import type { StoredManifest } from "../content/content-store.ts";
import { type Descriptor, MEDIA_TYPES, parseManifest } from "../content/descriptor.ts";
import { digestOf } from "../content/digest.ts";
import { SIGNATURE_TYPE } from "../formats/media-types.ts";

const MANIFEST_BYTES_MAX = 16 * 1024;
const LAYER_BYTES_MAX = 1024 * 1024;
const EMPTY = digestOf(Buffer.from("{}"));

/** Whether this has the shape of a signature of that release; whose it is, is not known by that. */
export function isReleaseSignature(
  { bytes, mediaType }: Pick<StoredManifest, "bytes" | "mediaType">,
  release: Digest,
): boolean {
  if (mediaType !== MEDIA_TYPES.manifest || bytes.length > MANIFEST_BYTES_MAX) return false;
  const parsed = parseManifest(bytes, mediaType);
  if (parsed.kind !== "manifest") return false;
  const { artifactType, subject, config, layers } = parsed.manifest;
  const [layer, ...others] = layers;
  return (
    artifactType === SIGNATURE_TYPE &&
    subject?.digest === release &&
    config.digest === EMPTY &&
    layer !== undefined &&
    others.length === 0 &&
    isSmallSignature(layer)
  );
}

function isSmallSignature({ mediaType, size }: Descriptor): boolean {
  return mediaType === SIGNATURE_TYPE && size <= LAYER_BYTES_MAX;
}
