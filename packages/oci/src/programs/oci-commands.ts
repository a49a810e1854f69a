// What `exclave oci` does, one function per command. Each gives back what is printed as JSON.

import { type Digest, Failure } from "@exclave/core";
import type { ContentStore } from "../content/content-store.ts";
import { type Descriptor, parseManifest } from "../content/descriptor.ts";
import { NAMELESS } from "../content/layout-names.ts";
import { parseReference } from "../content/reference.ts";
import { type CopyProgress, type CopyResult, copyArtifact } from "../copy/copy.ts";
import { directoryAnnotations } from "../pack/file-annotations.ts";
import { packFiles } from "../pack/pack.ts";
import { pullFiles } from "../pack/pull-files.ts";
import { pushFiles, statOf } from "../pack/push-files.ts";
import { type Access, openSource, openTarget } from "./open-reference.ts";

export interface CopyOptions {
  readonly platforms?: readonly string[] | undefined;
  readonly referrers: boolean;
  readonly onProgress?: (progress: CopyProgress) => void;
}

export async function copy(
  from: string,
  to: string,
  access: Access,
  options: CopyOptions,
): Promise<CopyResult> {
  await using target = await openTarget(parseReference(to), access);
  const result = await bring(from, target, access, options);
  await target.finish();
  return result;
}

/** One or more references as one archive of an OCI layout. */
export async function bundle(
  file: string,
  references: readonly string[],
  access: Access,
  options: CopyOptions,
): Promise<{ readonly file: string; readonly artifacts: readonly CopyResult[] }> {
  // A path and no reference: a colon in it is part of the name.
  const archive = { kind: "archive", path: file, name: undefined, digest: undefined } as const;
  await using target = await openTarget(archive, access);
  const artifacts: CopyResult[] = [];
  for (const reference of references) {
    artifacts.push(await bring(reference, target, access, options));
  }
  await target.finish();
  return { file, artifacts };
}

async function bring(
  from: string,
  target: Awaited<ReturnType<typeof openTarget>>,
  access: Access,
  options: CopyOptions,
): Promise<CopyResult> {
  const { signal } = access;
  await using source = await openSource(from, access);
  const digest = await resolve(source, signal);
  if (target.digest !== undefined && target.digest !== digest) {
    throw new Failure("invalid", `${from} is ${digest}, not ${target.digest}`);
  }
  const before = requestsOf(source.store);
  const result = await copyArtifact({
    from: source.store,
    to: target.store,
    source: { repository: source.repository, digest },
    target: target.place(source),
    // Within one registry nothing has to be moved.
    mountFrom:
      source.origin !== undefined && source.origin === target.origin ? [source.repository] : [],
    signal,
    ...options,
  });
  return { ...result, requests: result.requests + before };
}

async function resolve(
  { store, repository, reference }: Awaited<ReturnType<typeof openSource>>,
  signal: AbortSignal,
): Promise<Digest> {
  if (reference.includes(":")) return reference as Digest;
  const head = await store.headManifest(repository, reference, { signal });
  if (head) return head.digest;
  throw new Failure("not_found", `there is no ${reference} in ${repository}`);
}

/** Finding out what a tag stands for is part of the work. */
function requestsOf(store: ContentStore): number {
  return "requests" in store ? (store.requests as number) : 0;
}

export async function inspect(text: string, access: Access) {
  const { signal } = access;
  await using source = await openSource(text, access);
  const { store, repository, reference } = source;
  const { bytes, mediaType, digest } = await store.readManifest(repository, reference, { signal });
  const parsed = parseManifest(bytes, mediaType);
  const document = parsed.kind === "index" ? parsed.index : parsed.manifest;
  const referrers = await store.referrers(repository, digest, { signal });
  return {
    repository,
    digest,
    mediaType,
    size: bytes.length,
    artifactType: document.artifactType,
    annotations: document.annotations,
    subject: document.subject?.digest,
    ...(parsed.kind === "index"
      ? { manifests: parsed.index.manifests }
      : { config: parsed.manifest.config, layers: parsed.manifest.layers }),
    referrers,
  };
}

export interface PushOptions {
  readonly artifactType: string;
}

/** A directory becomes one layer; files become a layer each, with their name, as oras has them. */
export async function push(
  text: string,
  paths: readonly string[],
  access: Access,
  { artifactType }: PushOptions,
): Promise<Descriptor> {
  const { signal } = access;
  const reference = parseReference(text);
  if (reference.digest !== undefined) {
    throw new Failure("invalid", "a push goes to a tag: its digest is known once it is made");
  }
  await using target = await openTarget(reference, access);
  const place = target.place({ repository: NAMELESS, tag: "latest" });
  const to = { store: target.store, ...place, artifactType, signal };
  const [first = ""] = paths;
  const isDirectory = paths.length === 1 && (await statOf(first)).isDirectory();
  const made = isDirectory
    ? await packFiles({ ...to, directory: first, annotateLayer: directoryAnnotations })
    : await pushFiles({ ...to, paths });
  await target.finish();
  return made;
}

export async function pull(
  text: string,
  directory: string,
  access: Access,
): Promise<{ readonly digest: Digest; readonly directory: string; readonly layers: number }> {
  const { signal } = access;
  await using source = await openSource(text, access);
  const { store, repository } = source;
  const { bytes, mediaType, digest } = await store.readManifest(repository, source.reference, {
    signal,
  });
  const parsed = parseManifest(bytes, mediaType);
  if (parsed.kind === "index") {
    throw new Failure("invalid", `${text} is an index; name one of its manifests by digest`);
  }
  const { layers } = parsed.manifest;
  await pullFiles({ store, repository, layers, directory, signal });
  return { digest, directory, layers: layers.length };
}
