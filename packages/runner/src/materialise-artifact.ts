// Puts a component's artifact on disk for the plugin: files, charts, manifests and modules as files, an
// image as an OCI layout. All of it comes by digest from the registry the job was given, and each byte is checked on the way.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type ArtifactRef, Failure } from "@exclave/core";
import {
  type ContentStore,
  copyArtifact,
  createLayoutStore,
  FLUX_TYPES,
  HELM_TYPES,
  isContentLost,
  MEDIA_TYPES,
  parseManifest,
  unpackLayer,
  verified,
} from "@exclave/oci";
import { isModulePackage, unpackModule } from "./module/module-package.ts";

export interface Materialised {
  readonly files: string;
  readonly layout?: string;
}

/** What is missing or damaged in the registry has to be synced again; nothing else helps. */
export async function materialiseArtifact(
  registry: ContentStore,
  artifact: ArtifactRef,
  directory: string,
  signal: AbortSignal,
): Promise<Materialised> {
  try {
    return await materialise(registry, artifact, directory, signal);
  } catch (cause) {
    if (!isContentLost(cause)) throw cause;
    const { repository, digest } = artifact;
    const message = `${repository}@${digest} is not whole in the registry: ${cause.message}`;
    throw new Failure("not_synced", message, { cause });
  }
}

async function materialise(
  registry: ContentStore,
  artifact: ArtifactRef,
  directory: string,
  signal: AbortSignal,
): Promise<Materialised> {
  const { repository, digest } = artifact;
  const files = join(directory, "files");
  await mkdir(files, { recursive: true });

  const { bytes, mediaType } = await registry.readManifest(repository, digest, { signal });
  const parsed = parseManifest(bytes, mediaType);
  if (parsed.kind === "manifest" && isModulePackage(parsed.manifest)) {
    const platform = terraformPlatform(process.platform, process.arch);
    await unpackModule({ store: registry, ...artifact, directory: files, platform, signal });
    return { files };
  }
  if (parsed.kind === "manifest" && parsed.manifest.layers.every(isFiles)) {
    for (const layer of parsed.manifest.layers) {
      const content = registry.readBlob(repository, layer.digest, { signal });
      await unpackLayer(verified(content, layer), layer.mediaType, files);
    }
    return { files };
  }

  const layout = join(directory, "layout");
  const to = createLayoutStore({ directory: layout });
  const target = { repository };
  await copyArtifact({ from: registry, to, source: artifact, target, signal });
  return { files, layout };
}

const FILES: ReadonlySet<string> = new Set([
  MEDIA_TYPES.files,
  HELM_TYPES.chart,
  FLUX_TYPES.content,
]);

function isFiles({ mediaType }: { readonly mediaType: string }): boolean {
  return FILES.has(mediaType);
}

/** The name that Terraform has for the machine a job runs on. */
function terraformPlatform(platform: NodeJS.Platform, arch: NodeJS.Architecture): string {
  const names: Partial<Record<NodeJS.Architecture, string>> = { x64: "amd64", ia32: "386" };
  return `${platform === "win32" ? "windows" : platform}_${names[arch] ?? arch}`;
}
