// Packs what a build made and pushes it to the repository of its component.

import { Digest, Failure, type JobDocument, unreachable } from "@exclave/core";
import {
  blobsOf,
  type ContentStore,
  childrenOf,
  copyArtifact,
  createLayoutStore,
  packChart,
  packFiles,
  packImage,
  packManifests,
  parseManifest,
} from "@exclave/oci";
import type { BuildResult, ImageBuild } from "@exclave/plugin-sdk";
import { packModule } from "./module/module-package.ts";

export const FILES_ARTIFACT_TYPE = "application/vnd.exclave.component.v1";

export interface PushBuildOptions {
  readonly build: BuildResult;
  /** Where the materials are read, an image's base among them. */
  readonly registry?: ContentStore;
  readonly materials: JobDocument["materials"];
  readonly target: ContentStore;
  readonly repository: string;
  readonly signal: AbortSignal;
}

export interface PushedBuild {
  readonly digest: Digest;
  /** Of all content, every manifest included. */
  readonly sizeBytes: number;
}

export async function pushBuild(options: PushBuildOptions): Promise<PushedBuild> {
  const digest = await push(options);
  return { digest, sizeBytes: await sizeOf(options, digest) };
}

async function push(options: PushBuildOptions): Promise<Digest> {
  const { build, target: store, repository, signal } = options;
  switch (build.kind) {
    case "files": {
      const artifactType = build.artifactType ?? FILES_ARTIFACT_TYPE;
      const { directory } = build;
      return (await packFiles({ store, repository, directory, artifactType })).digest;
    }
    case "layout": {
      const from = createLayoutStore({ directory: build.directory });
      const source = { repository, digest: Digest.parse(build.digest) };
      await copyArtifact({ from, to: store, source, target: { repository }, signal });
      return source.digest;
    }
    case "chart":
      return (await packChart({ store, repository, directory: build.directory, signal })).digest;
    case "manifests":
      return (await packManifests({ store, repository, directory: build.directory, signal }))
        .digest;
    case "module": {
      const { directory, providers } = build;
      return (await packModule({ store, repository, directory, providers, signal })).digest;
    }
    case "image":
      return pushImage(options, build);
    default:
      return unreachable(build);
  }
}

async function pushImage(options: PushBuildOptions, image: ImageBuild): Promise<Digest> {
  const { target: store, repository } = options;
  const { entrypoint, cmd, env, workingDir } = image.config ?? {};
  const baseImage = image.base === undefined ? undefined : await bringBase(options, image.base);
  const { digest } = await packImage({
    store,
    repository,
    baseImage,
    layers: [{ directory: image.directory, prefix: image.prefix.replace(/^\/+/, "") }],
    config: {
      ...(entrypoint && { entrypoint }),
      ...(cmd && { command: cmd }),
      ...(env && { env }),
      ...(workingDir !== undefined && { workingDirectory: workingDir }),
    },
    ...(image.annotations && { annotations: image.annotations }),
  });
  return digest;
}

/** The image below, made part of the repository first: what is pushed must be whole by itself. */
async function bringBase(
  { registry, materials, target, repository, signal }: PushBuildOptions,
  name: string,
) {
  const base = materials.find((material) => material.name === name);
  if (!base || !registry) {
    throw new Failure("invalid", `the job was given no image ${JSON.stringify(name)} to build on`);
  }
  const source = { repository: base.repository, digest: base.digest };
  const mountFrom = [base.repository];
  await copyArtifact({
    from: registry,
    to: target,
    source,
    target: { repository },
    mountFrom,
    signal,
  });
  return { repository, digest: base.digest };
}

/** Platforms share layers, and a registry keeps each of them once: so it is counted. */
async function sizeOf({ target, repository, signal }: PushBuildOptions, top: Digest) {
  const sizes = new Map<Digest, number>();
  const open = [top];
  for (let digest = open.pop(); digest !== undefined; digest = open.pop()) {
    if (sizes.has(digest)) continue;
    const { bytes, mediaType } = await target.readManifest(repository, digest, { signal });
    const parsed = parseManifest(bytes, mediaType);
    sizes.set(digest, bytes.length);
    for (const blob of blobsOf(parsed)) sizes.set(blob.digest, blob.size);
    open.push(...childrenOf(parsed).map((child) => child.digest));
  }
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}
