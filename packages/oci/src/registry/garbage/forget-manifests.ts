// Takes manifests out of a registry that nothing kept reaches; what they alone listed is garbage from then on and is
// collected as such. Kept are the manifests that are named, what they list, and what is about them, such as signatures.
// Whatever was written within the grace period stays: somebody may be about to name it.

import { Digest } from "@exclave/core";
import { childrenOf, parseManifest, subjectOf } from "../../content/descriptor.ts";
import type { ObjectStore } from "../../objects/object-store.ts";
import { createRegistryFiles, type RegistryFiles } from "../files/registry-files.ts";
import { REPOSITORIES } from "../files/repository-places.ts";

export interface ForgetManifests {
  readonly directory: string;
  /** Where content lies instead of in the directory. */
  readonly objects?: ObjectStore | undefined;
  /** By digest, in whatever repository. */
  readonly keep: ReadonlySet<string>;
  readonly now: number;
  readonly graceMs: number;
  /** Awaited after each manifest that was looked at: others have their turn. */
  readonly onEach?: () => Promise<void>;
}

interface Found {
  readonly repository: string;
  readonly digest: Digest;
}

interface Links {
  readonly children: readonly string[];
  readonly subject: string | undefined;
}

/** How many were taken out. */
export async function forgetManifests(options: ForgetManifests): Promise<number> {
  const { directory, objects, keep, now, graceMs, onEach = async () => undefined } = options;
  const files = createRegistryFiles(directory, objects);
  const links = new Map<string, Links>();
  const found: Found[] = [];
  const roots = new Set(keep);
  for (const repository of await files.repositories()) {
    const here = await manifestsIn(files, repository);
    let isClear = true;
    // One by one: a repository may have more of them than a process may have files open.
    for (const digest of here) {
      const read = await linksOf(files, repository, digest);
      if (read === "unclear") isClear = false;
      else links.set(digest, read);
      found.push({ repository, digest });
      await onEach();
    }
    // What an unreadable one lists is not known: nothing beside it is touched.
    if (!isClear) for (const digest of here) roots.add(digest);
  }
  const kept = reachable(roots, links);
  let forgotten = 0;
  for (const { repository, digest } of found) {
    if (kept.has(digest)) continue;
    await onEach();
    // Looked at last: a push of the very same manifest writes it anew.
    const modifiedAt = await files.tree.modifiedAt(linkOf(repository, digest));
    if (modifiedAt === undefined || modifiedAt > now - graceMs) continue;
    if (await files.unlinkManifest(repository, digest)) forgotten++;
  }
  return forgotten;
}

function linkOf(repository: string, digest: string): string {
  return `${REPOSITORIES}/${repository}/+manifests/${digest.replace(":", "-")}`;
}

async function manifestsIn({ tree }: RegistryFiles, repository: string): Promise<Digest[]> {
  const names = await tree.names(`${REPOSITORIES}/${repository}/+manifests`);
  return names.flatMap((name) => Digest.safeParse(name.replace("-", ":")).data ?? []);
}

async function linksOf(
  files: RegistryFiles,
  repository: string,
  digest: Digest,
): Promise<Links | "unclear"> {
  try {
    const { bytes, mediaType } = await files.readManifest(repository, digest);
    const parsed = parseManifest(bytes, mediaType);
    return {
      children: childrenOf(parsed).map((child) => child.digest),
      subject: subjectOf(parsed)?.digest,
    };
  } catch {
    return "unclear";
  }
}

function reachable(roots: ReadonlySet<string>, links: ReadonlyMap<string, Links>): Set<string> {
  const about = new Map<string, string[]>();
  for (const [digest, { subject }] of links) {
    if (subject !== undefined) about.set(subject, [...(about.get(subject) ?? []), digest]);
  }
  const kept = new Set<string>();
  const open = [...roots];
  for (let digest = open.pop(); digest !== undefined; digest = open.pop()) {
    if (kept.has(digest)) continue;
    kept.add(digest);
    open.push(...(links.get(digest)?.children ?? []), ...(about.get(digest) ?? []));
  }
  return kept;
}
