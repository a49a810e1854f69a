// The OCI vocabulary: media types, descriptors, manifests and indexes. Schemas are loose: fields we
// do not know are none of our business, and the bytes a manifest came in are always kept as they are.

import { Digest, Failure } from "@exclave/core";
import { z } from "zod";

export const MEDIA_TYPES = {
  manifest: "application/vnd.oci.image.manifest.v1+json",
  index: "application/vnd.oci.image.index.v1+json",
  dockerManifest: "application/vnd.docker.distribution.manifest.v2+json",
  dockerIndex: "application/vnd.docker.distribution.manifest.list.v2+json",
  imageConfig: "application/vnd.oci.image.config.v1+json",
  empty: "application/vnd.oci.empty.v1+json",
  layerTar: "application/vnd.oci.image.layer.v1.tar",
  layerGzip: "application/vnd.oci.image.layer.v1.tar+gzip",
  layerZstd: "application/vnd.oci.image.layer.v1.tar+zstd",
  /** A directory of files that is not an image's layer: sources, modules, manifests. */
  files: "application/vnd.exclave.files.v1.tar+gzip",
} as const;

const TAG = /^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$/;

export { RepositoryName } from "@exclave/core";
export const Tag = z.string().regex(TAG);

// Lists and records from outside are read up to their first wrong entry. Zod's own collect an issue for
// each: 1.4 million wrong layers, which fit into a manifest, took 25 seconds and 3 GB.

export const Annotations = z.custom<Record<string, string>>(
  (value) =>
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every(isText),
  "must be an object whose values are strings",
);
export type Annotations = z.infer<typeof Annotations>;

export const Descriptor = z.looseObject({
  mediaType: z.string(),
  digest: Digest,
  size: z.int().nonnegative(),
  artifactType: z.string().optional(),
  annotations: Annotations.optional(),
  urls: z
    .custom<string[]>(
      (value) => Array.isArray(value) && value.every(isText),
      "must be a list of strings",
    )
    .optional(),
  data: z.string().optional(),
  platform: z
    .looseObject({ architecture: z.string(), os: z.string(), variant: z.string().optional() })
    .optional(),
});
export type Descriptor = z.infer<typeof Descriptor>;

const Descriptors = z.custom<unknown[]>(Array.isArray, "must be a list").transform(readDescriptors);

export const ImageManifest = z.looseObject({
  schemaVersion: z.literal(2),
  mediaType: z.string().optional(),
  artifactType: z.string().optional(),
  config: Descriptor,
  layers: Descriptors,
  subject: Descriptor.optional(),
  annotations: Annotations.optional(),
});
export type ImageManifest = z.infer<typeof ImageManifest>;

export const ImageIndex = z.looseObject({
  schemaVersion: z.literal(2),
  mediaType: z.string().optional(),
  artifactType: z.string().optional(),
  manifests: Descriptors,
  subject: Descriptor.optional(),
  annotations: Annotations.optional(),
});
export type ImageIndex = z.infer<typeof ImageIndex>;

/** How a container is to be run, inside an image's configuration. */
export const ImageConfig = z.looseObject({
  architecture: z.string(),
  os: z.string(),
  config: z
    .looseObject({
      Entrypoint: z.array(z.string()).nullish(),
      Cmd: z.array(z.string()).nullish(),
      Env: z.array(z.string()).nullish(),
      WorkingDir: z.string().nullish(),
      User: z.string().nullish(),
      Labels: Annotations.nullish(),
    })
    .default({}),
  rootfs: z.looseObject({ type: z.literal("layers"), diff_ids: z.array(Digest) }),
});
export type ImageConfig = z.infer<typeof ImageConfig>;

export type ParsedManifest =
  | { readonly kind: "manifest"; readonly manifest: ImageManifest }
  | { readonly kind: "index"; readonly index: ImageIndex };

export function parseManifest(bytes: Uint8Array, mediaType: string): ParsedManifest {
  const value = parseJson(bytes);
  if (isIndexType(mediaType)) {
    const index = ImageIndex.safeParse(value);
    if (index.success) return { kind: "index", index: index.data };
    throw new Failure("invalid", "this is not an OCI index", { cause: index.error });
  }
  if (mediaType === MEDIA_TYPES.manifest || mediaType === MEDIA_TYPES.dockerManifest) {
    const manifest = ImageManifest.safeParse(value);
    if (manifest.success) return { kind: "manifest", manifest: manifest.data };
    throw new Failure("invalid", "this is not an OCI manifest", { cause: manifest.error });
  }
  throw new Failure("invalid", `${mediaType} is not a manifest type this program knows`);
}

/** Far above what any tool writes, and few enough to look each one up. */
const ENTRIES_MAX = 10_000;

/**
 * A manifest on its way into a registry. Beyond being readable, it must be nothing else than its type
 * says to any other reader (CVE-2021-41190), and list no more than can be looked up.
 */
export function acceptManifest(bytes: Uint8Array, mediaType: string): ParsedManifest {
  const parsed = parseManifest(bytes, mediaType);
  const document = parsed.kind === "index" ? parsed.index : parsed.manifest;
  const entries = parsed.kind === "index" ? parsed.index.manifests : parsed.manifest.layers;
  if (document.mediaType !== undefined && document.mediaType !== mediaType) {
    const types = `${document.mediaType} by its mediaType, ${mediaType} by its Content-Type`;
    throw new Failure("invalid", `it is unclear what this manifest is: ${types}`);
  }
  if ("manifests" in document && ("config" in document || "layers" in document)) {
    throw new Failure("invalid", "a manifest has config and layers, an index manifests, none both");
  }
  if (entries.length > ENTRIES_MAX) {
    throw new Failure("invalid", `a manifest lists at most ${ENTRIES_MAX} others or layers`);
  }
  return parsed;
}

/** Every type a manifest may be taken in as. */
export function isManifestType(mediaType: string): boolean {
  const images: readonly string[] = [MEDIA_TYPES.manifest, MEDIA_TYPES.dockerManifest];
  return isIndexType(mediaType) || images.includes(mediaType);
}

export function isIndexType(mediaType: string): boolean {
  return mediaType === MEDIA_TYPES.index || mediaType === MEDIA_TYPES.dockerIndex;
}

/** What kind of manifest bytes hold when nobody said: by the field of that name, else by shape. */
export function manifestTypeOf(bytes: Uint8Array): string {
  const value = parseJson(bytes) as { mediaType?: unknown; manifests?: unknown } | null;
  if (typeof value?.mediaType === "string") return value.mediaType;
  return Array.isArray(value?.manifests) ? MEDIA_TYPES.index : MEDIA_TYPES.manifest;
}

/** Blobs a manifest needs beside it; layers that may only be fetched from elsewhere are left out. */
export function blobsOf(parsed: ParsedManifest): Descriptor[] {
  if (parsed.kind === "index") return [];
  return [parsed.manifest.config, ...parsed.manifest.layers].filter(isDistributable);
}

/** Manifests an index needs beside it. */
export function childrenOf(parsed: ParsedManifest): Descriptor[] {
  return parsed.kind === "index" ? parsed.index.manifests : [];
}

export function subjectOf(parsed: ParsedManifest): Descriptor | undefined {
  return parsed.kind === "index" ? parsed.index.subject : parsed.manifest.subject;
}

/** How a manifest appears in a list of referrers (distribution specification, listing referrers). */
export function referrerDescriptor(
  parsed: ParsedManifest,
  entry: { readonly mediaType: string; readonly digest: Digest; readonly size: number },
): Descriptor {
  const document = parsed.kind === "index" ? parsed.index : parsed.manifest;
  const fallback = parsed.kind === "manifest" ? parsed.manifest.config.mediaType : undefined;
  const artifactType = document.artifactType ?? fallback;
  return {
    mediaType: entry.mediaType,
    digest: entry.digest,
    size: entry.size,
    ...(artifactType === undefined ? {} : { artifactType }),
    ...(document.annotations === undefined ? {} : { annotations: document.annotations }),
  };
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function readDescriptors(values: readonly unknown[], context: z.RefinementCtx): Descriptor[] {
  const read: Descriptor[] = [];
  for (const [at, value] of values.entries()) {
    const descriptor = Descriptor.safeParse(value);
    if (!descriptor.success) {
      context.addIssue({ code: "custom", path: [at], message: "must be a descriptor" });
      return z.NEVER;
    }
    read.push(descriptor.data);
  }
  return read;
}

function isDistributable({ mediaType, urls }: Descriptor): boolean {
  return !(
    urls?.length ||
    mediaType.includes("nondistributable") ||
    mediaType.includes(".foreign.")
  );
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch (cause) {
    throw new Failure("invalid", "a manifest must be JSON", { cause });
  }
}
