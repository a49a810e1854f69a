// Makes artifacts: a directory of files as one, and container images layer by layer.

import { type Digest, Failure } from "@exclave/core";
import { type ContentStore, readImage, writeBlobBytes } from "../content/content-store.ts";
import {
  type Annotations,
  type Descriptor,
  type ImageConfig,
  type ImageIndex,
  type ImageManifest,
  MEDIA_TYPES,
} from "../content/descriptor.ts";
import { createLayer, type LayerSource } from "../layer/layer.ts";

interface Target {
  readonly store: ContentStore;
  readonly repository: string;
  readonly tag?: string | undefined;
  readonly annotations?: Annotations | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface PackFiles extends Target {
  readonly directory: string;
  readonly artifactType: string;
  readonly compressionLevel?: number;
  readonly subject?: Descriptor | undefined;
  /** What the layer says about itself, by the digest of its archive before it was compressed. */
  readonly annotateLayer?: (diffId: Digest) => Annotations;
}

/** One layer with everything that is in the directory. */
export async function packFiles(files: PackFiles): Promise<Descriptor> {
  const { store, repository, directory, artifactType, annotations, subject, signal } = files;
  await using layer = await createLayer(
    { directory },
    { mediaType: MEDIA_TYPES.files, signal, ...level(files) },
  );
  await store.writeBlob(repository, layer.descriptor, layer.open, { signal });
  const said = files.annotateLayer && { annotations: files.annotateLayer(layer.diffId) };
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  return writeDocument(files, {
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.manifest,
    artifactType,
    config,
    layers: [{ ...layer.descriptor, ...said }],
    ...(subject && { subject }),
    ...(annotations && { annotations }),
  });
}

export interface PackImage extends Target {
  readonly layers: readonly LayerSource[];
  readonly config?: PackImageConfig;
  /** An image of the same store whose layers come first and whose configuration holds unless said otherwise. */
  readonly baseImage?: { readonly repository: string; readonly digest: Digest } | undefined;
  readonly compressionLevel?: number;
}

export interface PackImageConfig {
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  /** `NAME=value`; the base image's come first. */
  readonly env?: readonly string[];
  readonly workingDirectory?: string;
  readonly user?: string;
  readonly labels?: Annotations;
  readonly architecture?: string;
  readonly os?: string;
}

export async function packImage(image: PackImage): Promise<Descriptor> {
  const { store, repository, annotations, baseImage, signal } = image;
  const base = baseImage && (await readImage(store, baseImage.repository, baseImage.digest));
  const layers: Descriptor[] = [...(base?.manifest.layers ?? [])];
  const diffIds: Digest[] = [...(base?.config.rootfs.diff_ids ?? [])];
  for (const layer of layers) await bring(image, layer);

  for (const source of image.layers) {
    await using layer = await createLayer(source, { signal, ...level(image) });
    await store.writeBlob(repository, layer.descriptor, layer.open, { signal });
    layers.push(layer.descriptor);
    diffIds.push(layer.diffId);
  }
  const configBytes = Buffer.from(
    JSON.stringify(imageConfig(image.config ?? {}, base?.config, diffIds)),
  );
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.imageConfig, configBytes);
  return writeDocument(image, {
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.manifest,
    config,
    layers,
    ...(annotations && { annotations }),
  });
}

export interface PackIndex extends Target {
  readonly manifests: Descriptor[];
  readonly artifactType?: string | undefined;
}

/** A list of manifests that lie in the same repository, such as a release. */
export async function packIndex(index: PackIndex): Promise<Descriptor> {
  const { artifactType, manifests, annotations } = index;
  return writeDocument(index, {
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.index,
    ...(artifactType && { artifactType }),
    manifests,
    ...(annotations && { annotations }),
  });
}

/** A layer of the base image, made one of this repository. */
async function bring(
  { store, repository, baseImage }: PackImage,
  layer: Descriptor,
): Promise<void> {
  if (!baseImage || baseImage.repository === repository) return;
  if ((await store.headBlob(repository, layer.digest)) !== undefined) return;
  if (await store.mountBlob(baseImage.repository, repository, layer.digest)) return;
  await store.writeBlob(repository, layer, (from) =>
    store.readBlob(baseImage.repository, layer.digest, { from }),
  );
}

function imageConfig(
  config: PackImageConfig,
  base: ImageConfig | undefined,
  diffIds: readonly Digest[],
): object {
  const { entrypoint, command, env, workingDirectory, user, labels } = config;
  return {
    architecture: config.architecture ?? base?.architecture ?? architecture(),
    os: config.os ?? base?.os ?? "linux",
    config: {
      ...base?.config,
      ...(entrypoint && { Entrypoint: entrypoint }),
      ...(command && { Cmd: command }),
      ...(env && { Env: [...(base?.config.Env ?? []), ...env] }),
      ...(workingDirectory && { WorkingDir: workingDirectory }),
      ...(user && { User: user }),
      ...(labels && { Labels: { ...base?.config.Labels, ...labels } }),
    },
    rootfs: { type: "layers", diff_ids: diffIds },
  };
}

/** Go's word for the processor, which is what images use. */
function architecture(): string {
  const names: Partial<Record<NodeJS.Architecture, string>> = { x64: "amd64", ia32: "386" };
  return names[process.arch] ?? process.arch;
}

function level({ compressionLevel }: { compressionLevel?: number }) {
  return compressionLevel === undefined ? {} : { compressionLevel };
}

async function writeDocument(
  target: Target,
  document: ImageManifest | ImageIndex,
): Promise<Descriptor> {
  const { store, repository, tag, signal } = target;
  const bytes = Buffer.from(JSON.stringify(document));
  if (bytes.length > 4 * 1024 * 1024) throw new Failure("too_large", "the manifest is over 4 MiB");
  const mediaType = document.mediaType ?? MEDIA_TYPES.manifest;
  const digest = await store.writeManifest(repository, bytes, mediaType, tag, { signal });
  return { mediaType, digest, size: bytes.length };
}
