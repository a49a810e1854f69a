// A bundle comes from outside, on whatever carried it. Before anything of it is used, every byte is
// shown to be what its name says, everything the release names to be there, and nothing else to be.

import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { Digest, Failure } from "@exclave/core";
import { createBlobFiles } from "../blob-files.ts";
import type { ContentStore } from "../content-store.ts";
import { blobsOf, childrenOf, parseManifest } from "../descriptor.ts";
import { verified } from "../digest.ts";
import { artifactFormat } from "../formats/artifact-format.ts";
import { listLayout } from "../layout-names.ts";
import { createLayoutStore } from "../layout-store.ts";
import { type ReleaseIndex, readReleaseIndex } from "./release-index.ts";

export interface CheckedBundle {
  readonly store: ContentStore;
  readonly repository: string;
  readonly release: ReleaseIndex;
  readonly blobs: number;
}

/** Reads an unpacked bundle; `invalid` says what is wrong with it. */
export async function checkBundle(directory: string, signal?: AbortSignal): Promise<CheckedBundle> {
  const blobs = await checkFiles(directory, signal);
  const store = createLayoutStore({ directory });
  const releases = [];
  for (const { repository, digest } of await listLayout(directory)) {
    const manifest = await store.readManifest(repository, digest);
    const parsed = parseManifest(manifest.bytes, manifest.mediaType);
    if (artifactFormat(parsed) === "release") {
      releases.push({ repository, release: readReleaseIndex(manifest) });
    }
  }
  const [found, ...others] = releases;
  if (!found) throw damaged("there is no release in it");
  if (others.length > 0) throw damaged("there is more than one release in it");
  await checkWhole(store, found.repository, found.release.digest);
  return { store, ...found, blobs };
}

/** Every file is a blob under its own digest, or one of the two that make a layout. */
async function checkFiles(directory: string, signal: AbortSignal | undefined): Promise<number> {
  const paths = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = createBlobFiles(directory);
  let blobs = 0;
  for (const entry of paths) {
    signal?.throwIfAborted();
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(directory.length + 1);
    if (entry.isDirectory()) continue;
    if (!entry.isFile()) throw damaged(`${name} is no plain file`);
    if (name === "oci-layout" || name === "index.json") continue;
    const [, algorithm = "", hex = ""] = /^blobs\/([^/]+)\/([^/]+)$/.exec(name) ?? [];
    const digest = Digest.safeParse(`${algorithm}:${hex}`);
    if (!digest.success) throw damaged(`${name} does not belong into a bundle`);
    const { size } = await lstat(path);
    for await (const _ of verified(files.read(digest.data), { digest: digest.data, size }));
    blobs++;
  }
  return blobs;
}

/** Everything the index leads to is there, in the size it says. */
async function checkWhole(store: ContentStore, repository: string, top: Digest): Promise<void> {
  const seen = new Set<Digest>();
  const open = [top];
  for (let digest = open.pop(); digest !== undefined; digest = open.pop()) {
    if (seen.has(digest)) continue;
    seen.add(digest);
    if (!(await store.headManifest(repository, digest))) throw damaged(`${digest} is missing`);
    const { bytes, mediaType } = await store.readManifest(repository, digest);
    const parsed = parseManifest(bytes, mediaType);
    for (const blob of blobsOf(parsed)) {
      const size = await store.headBlob(repository, blob.digest);
      if (size === undefined) throw damaged(`${blob.digest} is missing`);
      if (size !== blob.size) throw damaged(`${blob.digest} has ${size} of ${blob.size} bytes`);
    }
    open.push(...childrenOf(parsed).map((child) => child.digest));
  }
}

function damaged(what: string): Failure {
  return new Failure("invalid", `this is not a whole bundle: ${what}`);
}
