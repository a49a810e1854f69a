// Which of the formats a manifest is in, from what it says of itself.

import { MEDIA_TYPES, type ParsedManifest } from "../content/descriptor.ts";
import { FLUX_TYPES, HELM_TYPES, RELEASE_TYPE, SIGNATURE_TYPE, TOFU_TYPES } from "./media-types.ts";

export type ArtifactFormat =
  | "image"
  | "images"
  | "chart"
  | "module"
  | "provider"
  | "manifests"
  | "files"
  | "release"
  | "signature"
  | "other";

export function artifactFormat(parsed: ParsedManifest): ArtifactFormat {
  if (parsed.kind === "index") {
    const { artifactType, manifests } = parsed.index;
    if (artifactType === RELEASE_TYPE) return "release";
    if (artifactType === TOFU_TYPES.provider) return "provider";
    return manifests.some(({ platform }) => platform) ? "images" : "other";
  }
  const { artifactType, config, layers } = parsed.manifest;
  if (artifactType === SIGNATURE_TYPE) return "signature";
  if (artifactType === TOFU_TYPES.module) return "module";
  if (artifactType === TOFU_TYPES.providerTarget) return "provider";
  if (config.mediaType === HELM_TYPES.config) return "chart";
  if (config.mediaType === FLUX_TYPES.config) return "manifests";
  if (layers.length > 0 && layers.every(({ mediaType }) => mediaType === MEDIA_TYPES.files)) {
    return "files";
  }
  return IMAGE_CONFIGS.has(config.mediaType) ? "image" : "other";
}

const IMAGE_CONFIGS: ReadonlySet<string> = new Set([
  MEDIA_TYPES.imageConfig,
  "application/vnd.docker.container.image.v1+json",
]);
