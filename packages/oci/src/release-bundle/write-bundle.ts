// Writes a release as one file: an OCI layout in a tar archive, with the release's index, everything
// it names and every signature on it. It is what crosses an air gap. Whatever else is attached stays:
// no signature of the release speaks for it, so no install would take it in.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import type { Digest } from "@exclave/core";
import type { ContentStore } from "../content/content-store.ts";
import { writeLayoutArchive } from "../content/layout-archive.ts";
import { createLayoutStore } from "../content/layout-store.ts";
import { type CopyProgress, copyArtifact } from "../copy/copy.ts";
import { SIGNATURE_TYPE } from "../formats/media-types.ts";
import { type ReleaseIndex, readReleaseIndex } from "./release-index.ts";
import { isReleaseSignature } from "./release-signature.ts";

export interface WriteBundle {
  readonly from: ContentStore;
  readonly repository: string;
  readonly digest: Digest;
  readonly file: string;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: (progress: CopyProgress) => void;
}

export interface WrittenBundle {
  readonly release: ReleaseIndex;
  readonly file: string;
  readonly sizeBytes: number;
  readonly sha256: string;
}

export async function writeBundle(options: WriteBundle): Promise<WrittenBundle> {
  const { from, repository, digest, file, signal, onProgress } = options;
  const release = readReleaseIndex(await from.readManifest(repository, digest, { signal }));

  // Beside the file: a bundle can be larger than the room for temporary files.
  const layout = await mkdtemp(`${file}.layout-`);
  try {
    const to = createLayoutStore({ directory: layout });
    const target = { repository: release.repository, tag: release.id };
    const progress = onProgress ? { onProgress } : {};
    await copyArtifact({ from, to, source: { repository, digest }, target, signal, ...progress });
    await copySignatures(options, release, to);
    await writeLayoutArchive(layout, file, signal);
  } finally {
    await rm(layout, { recursive: true, force: true });
  }
  const { size: sizeBytes } = await stat(file);
  return { release, file, sizeBytes, sha256: await sha256Of(file) };
}

async function copySignatures(
  { from, repository, digest, signal }: WriteBundle,
  release: ReleaseIndex,
  to: ContentStore,
): Promise<void> {
  const attached = await from.referrers(repository, digest, {
    artifactType: SIGNATURE_TYPE,
    signal,
  });
  // In an order of their own: the same release gives the same file, whatever the registry answers.
  for (const signature of attached.map((entry) => entry.digest).sort()) {
    const manifest = await from.readManifest(repository, signature, { signal });
    if (!isReleaseSignature(manifest, digest)) continue;
    const source = { repository, digest: signature };
    await copyArtifact({ from, to, source, target: { repository: release.repository }, signal });
  }
}

async function sha256Of(file: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  return hash.digest("hex");
}
