// Gives back the room of content that nothing needs any more. What a manifest lists stays, tagged or
// not; so does whatever came, or was asked for, within the grace period, because somebody may be in
// the middle of a push. Uploads under way are not content yet and are never looked at.
//
// It needs no lock, also beside a registry in another process. A name is first moved aside, and only
// then is it asked once more whether anything needs it. Whoever builds on a name does it the other way
// round: first says so durably, then looks whether the name is there. So either the collector sees
// the need and puts the name back, or the other one sees that it is gone and refuses.

import type { Digest } from "@exclave/core";
import { manifestTypeOf, parseManifest } from "../../content/descriptor.ts";
import type { ObjectStore } from "../../objects/object-store.ts";
import { readManifestType } from "../files/link-files.ts";
import { createRegistryFiles, type RegistryFiles } from "../files/registry-files.ts";
import { REPOSITORIES } from "../files/repository-places.ts";

export interface Collected {
  /** Blobs a repository no longer has, because no manifest of it lists them. */
  readonly unlinked: number;
  /** Content that was in no repository any more. */
  readonly removed: number;
  readonly removedBytes: number;
}

export interface CollectGarbage {
  readonly directory: string;
  /** Where content lies instead of in the directory. */
  readonly objects?: ObjectStore | undefined;
  readonly now: number;
  readonly graceMs?: number;
  /** Awaited where others may come in between, so that a test can be the one who does. */
  readonly onStep?: (step: "found" | "aside", name: string) => Promise<void>;
}

export const GRACE_MS = 24 * 60 * 60 * 1_000;

const LINKS = ["+blobs", "+manifests"];

export function collectGarbage({
  directory,
  objects,
  ...options
}: CollectGarbage): Promise<Collected> {
  return collectFrom(createRegistryFiles(directory, objects), options);
}

export async function collectFrom(
  files: RegistryFiles,
  {
    now,
    graceMs = GRACE_MS,
    onStep = async () => undefined,
  }: Omit<CollectGarbage, "directory" | "objects">,
): Promise<Collected> {
  const before = now - graceMs;
  const { tree } = files;
  const manifests = createManifestReader(files);
  let [unlinked, removed, removedBytes] = [0, 0, 0];

  for (const repository of await repositories()) {
    await tidy(tree, repository, before);
    const links = `${repository}/+blobs`;
    const needed = await manifests.blobsNeeded(repository);
    if (needed === "unclear") continue;
    const gone = await tree.removeUnneeded(links, {
      before,
      onStep,
      isCandidate: (name) => !needed.has(name),
      allNeeded: () => manifests.blobsNeeded(repository),
      async isNeeded(name) {
        const again = await manifests.blobsNeeded(repository);
        return again === "unclear" || again.has(name);
      },
    });
    unlinked += gone.count;
  }

  for (const algorithm of ["sha256", "sha512"]) {
    const content = `blobs/${algorithm}`;
    await tree.tidy(content, Number.NEGATIVE_INFINITY);
    const linked = await linkedNames(files, await repositories(), algorithm);
    const gone = await tree.removeUnneeded(content, {
      before,
      onStep,
      isCandidate: (hex) => !linked.has(hex),
      allNeeded: async () => linkedNames(files, await repositories(), algorithm),
      isNeeded: async (hex) => isLinked(files, await repositories(), `${algorithm}-${hex}`),
    });
    removed += gone.count;
    removedBytes += gone.bytes;
  }
  return { unlinked, removed, removedBytes };

  async function repositories(): Promise<string[]> {
    return (await files.repositories()).map((name) => `${REPOSITORIES}/${name}`);
  }
}

/** Names as links have them, of blobs that manifests list. What a manifest lists is read once. */
function createManifestReader({ tree, blobs: content }: RegistryFiles) {
  const known = new Map<string, readonly string[] | "unclear">();

  return { blobsNeeded };

  async function blobsNeeded(repository: string): Promise<ReadonlySet<string> | "unclear"> {
    const needed = new Set<string>();
    for (const name of await tree.names(`${repository}/+manifests`)) {
      const link = `${repository}/+manifests/${name}`;
      const blobs = known.get(link) ?? (await read(link, name));
      known.set(link, blobs);
      if (blobs === "unclear") return blobs;
      for (const blob of blobs) needed.add(blob);
    }
    return needed;
  }

  async function read(link: string, name: string): Promise<readonly string[] | "unclear"> {
    const digest = name.replace("-", ":") as Digest;
    const bytes = await content.readWhole(digest);
    // Its content is gone, so it lists nothing that anyone could ask for.
    if (!bytes) return [];
    try {
      // As what it was taken in, so that it keeps what was asked of it then.
      const mediaType = (await readManifestType(tree, link)) ?? manifestTypeOf(bytes);
      const parsed = parseManifest(bytes, mediaType);
      if (parsed.kind === "index") return [];
      const { config, layers } = parsed.manifest;
      return [config, ...layers].map((blob) => blob.digest.replace(":", "-"));
    } catch {
      return "unclear";
    }
  }
}

/** What a registry or a collector that was killed left of links. */
async function tidy(
  tree: RegistryFiles["tree"],
  repository: string,
  before: number,
): Promise<void> {
  const subjects = await tree.folders(`${repository}/+referrers`);
  const referrers = subjects.map((subject) => `+referrers/${subject}`);
  for (const kind of ["+blobs", "+manifests", "+tags", ...referrers]) {
    await tree.tidy(`${repository}/${kind}`, before);
  }
}

/** As content is called, of one algorithm. */
async function linkedNames(
  { tree }: RegistryFiles,
  repositories: readonly string[],
  algorithm: string,
): Promise<Set<string>> {
  const linked = new Set<string>();
  for (const repository of repositories) {
    for (const kind of LINKS) {
      for (const name of await tree.names(`${repository}/${kind}`, { withAside: true })) {
        if (name.startsWith(`${algorithm}-`)) linked.add(name.slice(algorithm.length + 1));
      }
    }
  }
  return linked;
}

async function isLinked(
  { tree }: RegistryFiles,
  repositories: readonly string[],
  name: string,
): Promise<boolean> {
  for (const repository of repositories) {
    for (const kind of LINKS) {
      if (await tree.isLinked(`${repository}/${kind}`, name)) return true;
    }
  }
  return false;
}
