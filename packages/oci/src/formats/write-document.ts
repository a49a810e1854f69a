// Writes a manifest or an index in one canonical spelling, so that equal content has equal digests.

import { canonicalBytes } from "@exclave/core";
import type { ContentStore } from "../content/content-store.ts";
import {
  type Annotations,
  type Descriptor,
  type ImageIndex,
  type ImageManifest,
  MEDIA_TYPES,
} from "../content/descriptor.ts";

/** A blob that lies in a file until it has been sent. */
export interface PackedFile extends AsyncDisposable {
  readonly descriptor: Descriptor;
  readonly open: (from: number) => AsyncIterable<Uint8Array>;
}

/** Where an artifact goes. */
export interface FormatTarget {
  readonly store: ContentStore;
  readonly repository: string;
  readonly tag?: string | undefined;
  readonly annotations?: Annotations | undefined;
  readonly signal?: AbortSignal | undefined;
}

export async function writeDocument(
  { store, repository, tag, signal }: FormatTarget,
  document: ImageManifest | ImageIndex,
): Promise<Descriptor> {
  const bytes = canonicalBytes(document);
  const mediaType = document.mediaType ?? MEDIA_TYPES.manifest;
  const digest = await store.writeManifest(repository, bytes, mediaType, tag, { signal });
  return { mediaType, digest, size: bytes.length };
}

export async function writePacked(
  { store, repository, signal }: FormatTarget,
  { descriptor, open }: Pick<PackedFile, "descriptor" | "open">,
): Promise<Descriptor> {
  await store.writeBlob(repository, descriptor, open, { signal });
  return descriptor;
}
