// Copies what a release needs from the vendor's registry into the install's own, by digest. The
// destination is asked first: what is there already is not moved again, and when everything is, the
// vendor's registry is not asked anything, so that an install that was loaded from a file needs none.

import { createPublicKey } from "node:crypto";
import { Digest, type JobDocument, type JobLine } from "@exclave/core";
import { type ContentStore, copyArtifact, verifyArtifactSignature } from "@exclave/oci";
import { z } from "zod";

const Parameters = z.object({
  /** Repositories of the destination, by their full names, that may hold the same blobs. */
  mountFrom: z.array(z.string()).default([]),
  /** Which of the materials are releases: they count as there when their signature is there too. */
  releases: z.array(Digest).default([]),
  /** Public keys that may have signed them, base64 SPKI DER. */
  releaseKeys: z.array(z.base64()).default([]),
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
    const copied = (await isThere(options, parameters, { ...material, repository }))
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
  { releases, releaseKeys }: z.infer<typeof Parameters>,
  { repository, digest }: Material,
): Promise<boolean> {
  if (!(await to.headManifest(repository, digest, { signal }))) return false;
  if (!releases.includes(digest)) return true;
  const publicKeys = releaseKeys.map((key) =>
    createPublicKey({ key: Buffer.from(key, "base64"), format: "der", type: "spki" }),
  );
  const checked = { store: to, repository, digest, publicKeys, signal };
  return (await verifyArtifactSignature(checked)).kind === "signed";
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
    referrers: true,
    signal,
  });
  return { copiedBytes, sizeBytes: copiedBytes + skippedBytes };
}
