// Copies what a release needs from the vendor's registry into the install's own, by digest. What is
// there already is not moved again.

import type { JobDocument, JobLine } from "@exclave/core";
import { type ContentStore, copyArtifact } from "@exclave/oci";

export interface SyncOptions {
  readonly from: ContentStore;
  readonly to: ContentStore;
  readonly materials: JobDocument["materials"];
  readonly signal: AbortSignal;
  readonly write: (line: JobLine) => void;
}

export async function sync({ from, to, materials, signal, write }: SyncOptions): Promise<void> {
  const copied: string[] = [];
  for (const [index, { name, repository, digest }] of materials.entries()) {
    write({ type: "progress", message: `sync ${name}`, done: index, total: materials.length });
    const startedAt = performance.now();
    const { copiedBytes, skippedBytes } = await copyArtifact({
      from,
      to,
      source: { repository, digest },
      target: { repository },
      // One after the other, so that a layer many images share is moved once and mounted after.
      mountFrom: [...copied],
      referrers: true,
      signal,
    });
    if (!copied.includes(repository)) copied.push(repository);
    write({
      type: "artifact",
      name,
      repository,
      digest,
      sizeBytes: copiedBytes + skippedBytes,
      copiedBytes,
      durationMs: Math.round(performance.now() - startedAt),
    });
  }
  const total = materials.length;
  write({ type: "progress", message: "everything is in the install", done: total, total });
}
