// Files as one artifact: a layer each, with the file's name, as oras has them.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { pipeline } from "node:stream/promises";
import { type Digest, Failure } from "@exclave/core";
import { type ContentStore, writeBlobBytes } from "../content/content-store.ts";
import { type Descriptor, type ImageManifest, MEDIA_TYPES } from "../content/descriptor.ts";
import { TITLE } from "./file-annotations.ts";

export interface PushFiles {
  readonly store: ContentStore;
  readonly repository: string;
  readonly tag?: string | undefined;
  readonly paths: readonly string[];
  readonly artifactType: string;
  readonly signal: AbortSignal;
}

const OCTETS = "application/octet-stream";

export async function pushFiles(files: PushFiles): Promise<Descriptor> {
  const { store, repository, tag, paths, artifactType, signal } = files;
  checkNames(paths);
  const layers: Descriptor[] = [];
  for (const path of paths) {
    const layer = await describeFile(path, signal);
    const open = (start: number) => createReadStream(path, { start });
    await store.writeBlob(repository, layer, open, { signal });
    layers.push(layer);
  }
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const mediaType = MEDIA_TYPES.manifest;
  const document: ImageManifest = { schemaVersion: 2, mediaType, artifactType, config, layers };
  const bytes = Buffer.from(JSON.stringify(document));
  const digest = await store.writeManifest(repository, bytes, mediaType, tag, { signal });
  return { mediaType, digest, size: bytes.length };
}

export async function statOf(path: string) {
  return stat(path).catch((cause: unknown) => {
    throw new Failure("not_found", `there is no ${path}`, { cause });
  });
}

/** Whoever pulls them has one directory: of two files with one name, one would be lost. */
function checkNames(paths: readonly string[]): void {
  const names = paths.map((path) => basename(path));
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) {
    throw new Failure("invalid", `two of these files are called ${twice}`);
  }
}

async function describeFile(path: string, signal: AbortSignal): Promise<Descriptor> {
  const info = await statOf(path);
  if (!info.isFile()) {
    throw new Failure("invalid", `${path} is not a file; a directory is pushed alone`);
  }
  const digest = await digestOfFile(path, signal);
  return { mediaType: OCTETS, digest, size: info.size, annotations: { [TITLE]: basename(path) } };
}

async function digestOfFile(path: string, signal: AbortSignal): Promise<Digest> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash, { signal });
  return `sha256:${hash.digest("hex")}` as Digest;
}
