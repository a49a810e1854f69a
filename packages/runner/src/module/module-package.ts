// A Terraform module as an OpenTofu module package: one zip layer that `tofu` reads as it is. The
// providers the module needs travel with it, each a layer of its own, so that a registry keeps one
// copy however many modules use it and an install needs no other source for them.

import { createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { type Digest, Failure } from "@exclave/core";
import {
  type ContentStore,
  type Descriptor,
  type FormatTarget,
  type ImageManifest,
  MEDIA_TYPES,
  parseManifest,
  TITLE_ANNOTATION,
  TOFU_TYPES,
  verified,
  writeBlobBytes,
  writeDocument,
  writePacked,
} from "@exclave/oci";
import {
  type ProviderIdentity,
  type ProviderPackage,
  packProvider,
  parseProviderIdentity,
  providerFileName,
} from "./terraform-provider.ts";
import { type UnzipOptions, unzip } from "./zip-reader.ts";
import { createZip } from "./zip-writer.ts";

/** On a provider's layer: which one it is. */
export const PROVIDER_ANNOTATIONS = {
  address: "dev.exclave.provider.address",
  version: "dev.exclave.provider.version",
  platform: "dev.exclave.provider.platform",
} as const;

/** Where an unpacked module has its providers, in the layout of a filesystem mirror. */
export const BUNDLED_PROVIDERS = ".exclave/providers";

export interface PackModule extends FormatTarget {
  readonly directory: string;
  readonly providers?: readonly ProviderPackage[] | undefined;
}

export async function packModule(module: PackModule): Promise<Descriptor> {
  const { store, repository, directory, providers = [], annotations } = module;
  await using archive = await createZip(directory, { mediaType: TOFU_TYPES.zip });
  const content = await writePacked(module, archive);
  const layers: Descriptor[] = [{ ...content, annotations: { [TITLE_ANNOTATION]: "module.zip" } }];
  for (const provider of providers.toSorted(byIdentity)) {
    const identity = parseProviderIdentity(provider);
    await using packed = await packProvider(provider.path, TOFU_TYPES.bundledProvider);
    layers.push({ ...(await writePacked(module, packed)), annotations: annotate(identity) });
  }
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  return writeDocument(module, {
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.manifest,
    artifactType: TOFU_TYPES.module,
    config,
    layers,
    ...(annotations && { annotations }),
  });
}

export interface ModulePackage {
  readonly content: Descriptor;
  readonly providers: readonly (ProviderIdentity & { readonly layer: Descriptor })[];
}

export function isModulePackage({ artifactType }: Pick<ImageManifest, "artifactType">): boolean {
  return artifactType === TOFU_TYPES.module;
}

export function parseModulePackage(manifest: ImageManifest): ModulePackage {
  const [content, ...others] = manifest.layers.filter(
    ({ mediaType }) => mediaType === TOFU_TYPES.zip,
  );
  if (!isModulePackage(manifest) || !content || others.length > 0) {
    throw new Failure("invalid", "this is not a module package");
  }
  const providers = manifest.layers
    .filter(({ mediaType }) => mediaType === TOFU_TYPES.bundledProvider)
    .map((layer) => ({
      layer,
      ...parseProviderIdentity({
        address: layer.annotations?.[PROVIDER_ANNOTATIONS.address],
        version: layer.annotations?.[PROVIDER_ANNOTATIONS.version],
        platform: layer.annotations?.[PROVIDER_ANNOTATIONS.platform],
      }),
    }));
  return { content, providers };
}

export interface UnpackModule extends UnzipOptions {
  readonly store: ContentStore;
  readonly repository: string;
  readonly digest: Digest;
  readonly directory: string;
  /** Whose providers are wanted; those for other platforms are not fetched. */
  readonly platform: string;
}

/** The module's files, with its providers unpacked in a mirror beside them. */
export async function unpackModule(options: UnpackModule): Promise<void> {
  const { store, repository, digest, directory, platform, signal } = options;
  const { bytes, mediaType } = await store.readManifest(repository, digest, { signal });
  const parsed = parseManifest(bytes, mediaType);
  if (parsed.kind === "index") throw new Failure("invalid", `${digest} is an index, not a module`);
  const { content, providers } = parseModulePackage(parsed.manifest);
  const wanted = providers.filter((provider) => provider.platform === platform);
  const lacking = providers.find(({ address }) => !wanted.some((one) => one.address === address));
  if (lacking) {
    const message = `the module brings ${lacking.address} for ${lacking.platform} and not for ${platform}`;
    throw new Failure("invalid", message);
  }
  await unpackZipLayer(options, content, directory);
  for (const { address, version, layer } of wanted) {
    const place = join(directory, BUNDLED_PROVIDERS, address, version, platform);
    await rm(place, { recursive: true, force: true });
    await unpackZipLayer(options, layer, place);
  }
}

/** Zip has its list of files at the end, so the archive lies on disk for a while. */
async function unpackZipLayer(
  { store, repository, directory, signal, bytesMax }: UnpackModule,
  layer: Descriptor,
  to: string,
): Promise<void> {
  const temporary = await mkdtemp(`${directory}.zip-`);
  try {
    const file = join(temporary, "layer.zip");
    const bytes = store.readBlob(repository, layer.digest, { signal });
    await pipeline(verified(bytes, layer), createWriteStream(file, { flags: "wx", mode: 0o600 }));
    await unzip(file, to, { signal, ...(bytesMax !== undefined && { bytesMax }) });
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

function annotate(identity: ProviderIdentity): Record<string, string> {
  return {
    [TITLE_ANNOTATION]: providerFileName(identity),
    [PROVIDER_ANNOTATIONS.address]: identity.address,
    [PROVIDER_ANNOTATIONS.version]: identity.version,
    [PROVIDER_ANNOTATIONS.platform]: identity.platform,
  };
}

function byIdentity(a: ProviderIdentity, b: ProviderIdentity): number {
  const key = ({ address, version, platform }: ProviderIdentity) =>
    `${address} ${version} ${platform}`;
  return key(a) < key(b) ? -1 : 1;
}
