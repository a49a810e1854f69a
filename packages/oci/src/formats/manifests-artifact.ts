// Kubernetes manifests in the format of Flux's `OCIRepository`: a directory as one archive.

import { canonicalBytes } from "@exclave/core";
import { writeBlobBytes } from "../content/content-store.ts";
import { type Descriptor, MEDIA_TYPES } from "../content/descriptor.ts";
import { createLayer } from "../layer/layer.ts";
import { FLUX_TYPES } from "./media-types.ts";
import { type FormatTarget, writeDocument, writePacked } from "./write-document.ts";

export interface PackManifests extends FormatTarget {
  readonly directory: string;
}

export async function packManifests(manifests: PackManifests): Promise<Descriptor> {
  const { store, repository, directory, annotations } = manifests;
  await using layer = await createLayer({ directory }, { mediaType: FLUX_TYPES.content });
  const content = await writePacked(manifests, layer);
  // An image's configuration under another name, as `flux push artifact` writes it.
  const bytes = canonicalBytes({
    architecture: "",
    os: "",
    config: {},
    rootfs: { type: "layers", diff_ids: [layer.diffId] },
  });
  const config = await writeBlobBytes(store, repository, FLUX_TYPES.config, bytes);
  return writeDocument(manifests, {
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.manifest,
    config,
    layers: [content],
    ...(annotations && { annotations }),
  });
}
