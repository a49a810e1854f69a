// A Terraform provider as a package: one version for one platform, a zip archive as its registry has
// it, or a directory that becomes one.

import { stat } from "node:fs/promises";
import { Failure } from "@exclave/core";
import {
  type Descriptor,
  type FormatTarget,
  MEDIA_TYPES,
  type PackedFile,
  TITLE_ANNOTATION,
  TOFU_TYPES,
  tagOfVersion,
  writeBlobBytes,
  writeDocument,
  writePacked,
} from "@exclave/oci";
import { z } from "zod";
import { createZip, describeFile } from "./zip-writer.ts";

/** `registry.terraform.io/hashicorp/aws`; also part of a path, so nothing in it can lead elsewhere. */
export const ProviderAddress = z
  .string()
  .regex(/^[a-z0-9][a-z0-9.:-]*\/[A-Za-z0-9][A-Za-z0-9_-]*\/[A-Za-z0-9][A-Za-z0-9_-]*$/);

export const ProviderIdentity = z.object({
  address: ProviderAddress,
  version: z.string().regex(/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/),
  /** As Terraform writes it: `linux_amd64`. */
  platform: z.string().regex(/^[a-z0-9]+_[a-z0-9]+$/),
});
export type ProviderIdentity = z.infer<typeof ProviderIdentity>;

export interface ProviderPackage extends ProviderIdentity {
  /** The archive, or a directory with what would be in it. */
  readonly path: string;
}

export function parseProviderIdentity(value: unknown): ProviderIdentity {
  const identity = ProviderIdentity.safeParse(value);
  if (identity.success) return identity.data;
  throw new Failure("invalid", `${JSON.stringify(value)} does not name a provider's package`, {
    cause: identity.error,
  });
}

/** The package's bytes: an archive exactly as it is, a directory as an archive of our own making. */
export async function packProvider(path: string, mediaType: string): Promise<PackedFile> {
  const found = await stat(path);
  return found.isDirectory() ? createZip(path, { mediaType }) : describeFile(path, mediaType);
}

/** The file name that mirrors and registries use. */
export function providerFileName({ address, version, platform }: ProviderIdentity): string {
  return `terraform-provider-${address.split("/").at(-1)}_${version}_${platform}.zip`;
}

export interface PackProviderIndex extends FormatTarget {
  /** One version of one provider, for as many platforms as there are. */
  readonly packages: readonly ProviderPackage[];
}

/** What OpenTofu's `oci_mirror` reads, tagged with the version. */
export async function packProviderIndex(index: PackProviderIndex): Promise<Descriptor> {
  const { store, repository, packages, annotations } = index;
  const [first, ...others] = packages.map((given) => parseProviderIdentity(given));
  if (!first) throw new Failure("invalid", "a provider needs at least one package");
  for (const { address, version } of others) {
    if (address === first.address && version === first.version) continue;
    throw new Failure("invalid", `${address} ${version} is not ${first.address} ${first.version}`);
  }
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const manifests: Descriptor[] = [];
  for (const given of packages.toSorted((a, b) => (a.platform < b.platform ? -1 : 1))) {
    await using packed = await packProvider(given.path, TOFU_TYPES.zip);
    const layer = await writePacked(index, packed);
    const [os = "", architecture = ""] = given.platform.split("_");
    const target = await writeDocument(
      { ...index, tag: undefined },
      {
        schemaVersion: 2,
        mediaType: MEDIA_TYPES.manifest,
        artifactType: TOFU_TYPES.providerTarget,
        config,
        layers: [{ ...layer, annotations: { [TITLE_ANNOTATION]: providerFileName(given) } }],
      },
    );
    manifests.push({
      ...target,
      artifactType: TOFU_TYPES.providerTarget,
      platform: { os, architecture },
    });
  }
  return writeDocument(
    { ...index, tag: index.tag ?? tagOfVersion(first.version) },
    {
      schemaVersion: 2,
      mediaType: MEDIA_TYPES.index,
      artifactType: TOFU_TYPES.provider,
      manifests,
      ...(annotations && { annotations }),
    },
  );
}
