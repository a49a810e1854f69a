// Copies what a release needs from the vendor's registry into the install's own, by digest. The
// destination is asked first: what is there already is not moved again, and when everything is, the
// vendor's registry is not asked anything, so that an install that was loaded from a file needs none.
// Exactly what it was handed is copied: nothing of what others attached to it comes along.

import type { JobDocument, JobLine } from "@exclave/core";
import { type ContentStore, copyArtifact } from "@exclave/oci";
import { z } from "zod";

const Parameters = z.object({
  /** Repositories of the destination, by their full names, that may hold the same blobs. */
  mountFrom: z.array(z.string()).default([]),
});

export interface SyncOptions {
  readonly from: ContentStore;
  readonly to: ContentStore;
  /** Goes before every repository of the destination; empty where a registry is the install's alone. */
  readonly prefix: string;
  readonly materials: JobDocument["materials"];
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
  readonly write: (line: JobLine) => void;
}

type Material = JobDocument["materials"][number];

export async function sync(options: SyncOptions): Promise<void> {
  const { materials, prefix, write } = options;
  const parameters = Parameters.parse(options.parameters);
  const total = materials.length;
  const mountFrom = new Set(parameters.mountFrom);

  for (const [done, material] of materials.entries()) {
    const { name, digest } = material;
    const repository = prefix === "" ? material.repository : `${prefix}/${material.repository}`;
    write({ type: "progress", message: `sync ${name}`, done, total });
    const startedAt = performance.now();
    const copied = (await isThere(options, { ...material, repository }))
      ? { copiedBytes: 0 }
      : // One after the other, so that a layer many images share is moved once and mounted after.
        await copy(options, material, repository, likeliestFirst(mountFrom, material));
    mountFrom.add(repository);
    const durationMs = Math.round(performance.now() - startedAt);
    write({ type: "artifact", name, repository, digest, ...copied, durationMs });
  }
  write({ type: "progress", message: "everything is in the install", done: total, total });
}

/** Only a few can be asked about each blob: another install's copy of the same thing is the best guess. */
export function likeliestFirst(
  repositories: Iterable<string>,
  { repository }: Pick<Material, "repository">,
): string[] {
  const { same = [], other = [] } = Object.groupBy(repositories, (name) =>
    name.endsWith(`/${repository}`) ? "same" : "other",
  );
  return [...same, ...other];
}

async function isThere(
  { to, signal }: SyncOptions,
  { repository, digest }: Material,
): Promise<boolean> {
  // Its bytes are checked where they lie: what was damaged or lost there is re-synced.
  return (await to.headManifest(repository, digest, { signal, verify: true })) !== undefined;
}

async function copy(
  { from, to, signal }: SyncOptions,
  { repository, digest }: Material,
  target: string,
  mountFrom: readonly string[],
): Promise<{ copiedBytes: number; sizeBytes: number }> {
  const { copiedBytes, skippedBytes } = await copyArtifact({
    from,
    to,
    source: { repository, digest },
    target: { repository: target },
    mountFrom,
    signal,
  });
  return { copiedBytes, sizeBytes: copiedBytes + skippedBytes };
}
