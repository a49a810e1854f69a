// A bundle comes from outside, on whatever carried it. Before anything of it is used, every byte is
// shown to be what its name says, everything the release names to be there, and nothing else to be.

import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { Digest, Failure } from "@exclave/core";
import { createBlobFiles } from "../content/blob-files.ts";
import type { ContentStore, StoredManifest } from "../content/content-store.ts";
import { blobsOf, childrenOf, manifestTypeOf, parseManifest } from "../content/descriptor.ts";
import { verified } from "../content/digest.ts";
import { type LayoutEntry, listLayout } from "../content/layout-names.ts";
import { createLayoutStore } from "../content/layout-store.ts";
import { artifactFormat } from "../formats/artifact-format.ts";
import { type ReleaseIndex, readReleaseIndex } from "./release-index.ts";
import { isReleaseSignature } from "./release-signature.ts";

export interface CheckedBundle {
  readonly store: ContentStore;
  readonly release: ReleaseIndex;
}

/** Reads an unpacked bundle; `invalid` says what is wrong with it. Who signed it is not asked here. */
export async function checkBundle(directory: string, signal?: AbortSignal): Promise<CheckedBundle> {
  const files = await checkFiles(directory, signal);
  const store = createLayoutStore({ directory });
  const listed = await readListed(store, directory);
  const release = onlyRelease(listed);
  for (const entry of listed) checkListed(entry, release);
  const needed = await checkWhole(store, release, listed);
  const stowaway = files.find((digest) => !needed.has(digest));
  if (stowaway) throw damaged(`${stowaway} is no part of the release`);
  return { store, release };
}

/** Every file is a blob under its own digest, or one of the two that make a layout. */
async function checkFiles(directory: string, signal: AbortSignal | undefined): Promise<Digest[]> {
  const paths = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = createBlobFiles(directory);
  const blobs: Digest[] = [];
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
    blobs.push(digest.data);
  }
  return blobs;
}

interface Listed extends LayoutEntry {
  readonly manifest: StoredManifest;
}

/** What `index.json` lists. Nobody signs that file, so what it says of a manifest is compared with it. */
async function readListed(store: ContentStore, directory: string): Promise<Listed[]> {
  const listed: Listed[] = [];
  for (const entry of await listLayout(directory)) {
    const { repository, digest } = entry;
    const manifest = await store.readManifest(repository, digest);
    const said = await store.headManifest(repository, digest);
    const { bytes, mediaType } = manifest;
    if (manifestTypeOf(bytes) !== mediaType || said?.size !== bytes.length) {
      throw damaged(`${digest} is not what index.json says it is`);
    }
    listed.push({ ...entry, manifest });
  }
  return listed;
}

function onlyRelease(listed: readonly Listed[]): ReleaseIndex {
  const [found, ...others] = listed.filter(({ manifest }) => isRelease(manifest));
  if (!found) throw damaged("there is no release in it");
  if (others.length > 0) throw damaged("there is more than one release in it");
  return readReleaseIndex(found.manifest);
}

function isRelease({ bytes, mediaType }: StoredManifest): boolean {
  return artifactFormat(parseManifest(bytes, mediaType)) === "release";
}

/** Listed are the release, by the names it has in what is signed, and signatures of it. */
function checkListed({ name, repository, digest, manifest }: Listed, release: ReleaseIndex): void {
  if (repository !== release.repository) {
    throw damaged(`${digest} is listed for ${repository} and belongs to ${release.repository}`);
  }
  const isTop = digest === release.digest;
  if (!isTop && !isReleaseSignature(manifest, release.digest)) {
    throw damaged(`${digest} is neither the release nor a signature of it`);
  }
  if (name !== (isTop ? `${release.repository}:${release.id}` : undefined)) {
    throw damaged(`${digest} is listed under a name that is not its own`);
  }
}

/** Everything that the listed ones lead to is there, in the size they say. Returns what that is. */
async function checkWhole(
  store: ContentStore,
  { repository }: ReleaseIndex,
  listed: readonly Listed[],
): Promise<ReadonlySet<Digest>> {
  const seen = new Set<Digest>();
  const blobs = new Set<Digest>();
  const open = listed.map(({ digest }) => digest);
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
      blobs.add(blob.digest);
    }
    open.push(...childrenOf(parsed).map((child) => child.digest));
  }
  return new Set([...seen, ...blobs]);
}

function damaged(what: string): Failure {
  return new Failure("invalid", `this is not a bundle as it was written: ${what}`);
}
