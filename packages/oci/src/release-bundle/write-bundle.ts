// Writes a release as one file: an OCI layout in a tar archive, with the release's index, everything
// it names and every signature on it. It is what crosses an air gap.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import type { Digest } from "@exclave/core";
import type { ContentStore } from "../content-store.ts";
import { type CopyProgress, copyArtifact } from "../copy.ts";
import { writeLayoutArchive } from "../layout-archive.ts";
import { createLayoutStore } from "../layout-store.ts";
import { type ReleaseIndex, readReleaseIndex } from "./release-index.ts";

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
    await copyArtifact({
      from,
      to: createLayoutStore({ directory: layout }),
      source: { repository, digest },
      target: { repository, tag: release.id },
      referrers: true,
      signal,
      ...(onProgress ? { onProgress } : {}),
    });
    await writeLayoutArchive(layout, file, signal);
  } finally {
    await rm(layout, { recursive: true, force: true });
  }
  const { size: sizeBytes } = await stat(file);
  return { release, file, sizeBytes, sha256: await sha256Of(file) };
}

async function sha256Of(file: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  return hash.digest("hex");
}
