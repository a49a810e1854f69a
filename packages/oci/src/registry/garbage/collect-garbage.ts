// Gives back the room of content that nothing needs any more. What a manifest lists stays, tagged or
// not; so does whatever came, or was asked for, within the grace period, because somebody may be in
// the middle of a push. Uploads under way are not content yet and are never looked at.
//
// It needs no lock, also beside a registry in another process. A name is first moved aside, and only
// then is it asked once more whether anything needs it. Whoever builds on a name does it the other way
// round: first says so durably, then looks whether the name is there. So either the collector sees
// the need and puts the name back, or the other one sees that it is gone and refuses.

import { link, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Digest } from "@exclave/core";
import { removeDurably, unlessAbsent } from "@exclave/machine";
import { manifestTypeOf, parseManifest } from "../../content/descriptor.ts";
import { linksIn, readManifestType } from "../files/link-files.ts";
import { createRegistryFiles, type RegistryFiles } from "../files/registry-files.ts";

export interface Collected {
  /** Blobs a repository no longer has, because no manifest of it lists them. */
  readonly unlinked: number;
  /** Content that was in no repository any more. */
  readonly removed: number;
  readonly removedBytes: number;
}

export interface CollectGarbage {
  readonly directory: string;
  readonly now: number;
  readonly graceMs?: number;
  /** Awaited where others may come in between, so that a test can be the one who does. */
  readonly onStep?: (step: "found" | "aside", name: string) => Promise<void>;
}

export const GRACE_MS = 24 * 60 * 60 * 1_000;

/** A name moved aside. The colon keeps it out of every listing. */
const ASIDE = ":aside-";
const LINKS = ["+blobs", "+manifests"];
/** A link that was being written, as `writeFileDurably` calls it until it is whole. */
const DRAFT = /^:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export async function collectGarbage(options: CollectGarbage): Promise<Collected> {
  const { directory, now, graceMs = GRACE_MS } = options;
  const { onStep = async () => undefined } = options;
  const before = now - graceMs;
  const files = createRegistryFiles(directory);
  const manifests = createManifestReader(files);
  let unlinked = 0;
  let removed = 0;
  let removedBytes = 0;

  for (const repository of await repositories()) {
    await removeDrafts(repository, before);
    const links = join(repository, "+blobs");
    await putBackAll(links);
    const needed = await manifests.blobsNeeded(repository);
    if (needed === "unclear") continue;
    for (const name of await linksIn(links)) {
      if (needed.has(name)) continue;
      const isNeeded = async () => {
        const again = await manifests.blobsNeeded(repository);
        return again === "unclear" || again.has(name);
      };
      if ((await removeUnless(isNeeded, links, name)) !== undefined) unlinked++;
    }
  }

  for (const algorithm of ["sha256", "sha512"]) {
    const content = join(directory, "blobs", algorithm);
    await putBackAll(content);
    const linked = await linkedNames(await repositories());
    for (const hex of await linksIn(content)) {
      const name = `${algorithm}-${hex}`;
      if (linked.has(name)) continue;
      const isNeeded = async () => isLinked(await repositories(), name);
      const size = await removeUnless(isNeeded, content, hex);
      if (size === undefined) continue;
      removed++;
      removedBytes += size;
    }
  }
  return { unlinked, removed, removedBytes };

  /** The size of what was removed; undefined when it stays. */
  async function removeUnless(
    isNeeded: () => Promise<boolean>,
    directory: string,
    name: string,
  ): Promise<number | undefined> {
    const path = join(directory, name);
    const aside = join(directory, `${ASIDE}${name}`);
    const found = await unlessAbsent(stat(path));
    if (!found || found.mtimeMs > before) return undefined;
    await onStep("found", name);
    if (!(await unlessAbsent(rename(path, aside).then(() => true)))) return undefined;
    const moved = await unlessAbsent(stat(aside));
    if (!moved) return undefined;
    await onStep("aside", name);
    if (moved.mtimeMs > before || (await isNeeded())) {
      await putBack(directory, name);
      return undefined;
    }
    return (await removeDurably(aside)) ? moved.size : undefined;
  }

  async function repositories(): Promise<string[]> {
    return (await files.repositories()).map((name) => join(directory, "repositories", name));
  }
}

/** Names as links have them, of blobs that manifests list. What a manifest lists is read once. */
function createManifestReader(files: RegistryFiles) {
  const known = new Map<string, readonly string[] | "unclear">();

  return { blobsNeeded };

  async function blobsNeeded(repository: string): Promise<ReadonlySet<string> | "unclear"> {
    const needed = new Set<string>();
    for (const name of await linksIn(join(repository, "+manifests"))) {
      const link = join(repository, "+manifests", name);
      const blobs = known.get(link) ?? (await read(link, name));
      known.set(link, blobs);
      if (blobs === "unclear") return blobs;
      for (const blob of blobs) needed.add(blob);
    }
    return needed;
  }

  async function read(link: string, name: string): Promise<readonly string[] | "unclear"> {
    const digest = name.replace("-", ":") as Digest;
    const bytes = await unlessAbsent(readFile(files.blobs.path(digest)));
    // Its content is gone, so it lists nothing that anyone could ask for.
    if (!bytes) return [];
    try {
      // As what it was taken in, so that it keeps what was asked of it then.
      const parsed = parseManifest(bytes, (await readManifestType(link)) ?? manifestTypeOf(bytes));
      if (parsed.kind === "index") return [];
      const { config, layers } = parsed.manifest;
      return [config, ...layers].map((blob) => blob.digest.replace(":", "-"));
    } catch {
      return "unclear";
    }
  }
}

/** What a registry that was killed left of links it was writing. */
async function removeDrafts(repository: string, before: number): Promise<void> {
  const subjects = await linksIn(join(repository, "+referrers"));
  const referrers = subjects.map((subject) => join("+referrers", subject));
  for (const kind of ["+manifests", "+tags", ...referrers]) {
    const place = join(repository, kind);
    for (const name of (await unlessAbsent(readdir(place))) ?? []) {
      const file = join(place, name);
      const found = DRAFT.test(name) ? await unlessAbsent(stat(file)) : undefined;
      if (found && found.mtimeMs <= before) await rm(file, { force: true });
    }
  }
}

/** A collector that was killed may have left needed names aside. */
async function putBackAll(directory: string): Promise<void> {
  const entries = (await unlessAbsent(readdir(directory))) ?? [];
  for (const name of entries.filter((entry) => entry.startsWith(ASIDE))) {
    await putBack(directory, name.slice(ASIDE.length));
  }
}

async function putBack(directory: string, name: string): Promise<void> {
  const aside = join(directory, `${ASIDE}${name}`);
  try {
    // Unlike a rename, this leaves alone what has come to the place in the meantime.
    await link(aside, join(directory, name));
  } catch (reason) {
    const { code } = reason as NodeJS.ErrnoException;
    if (code !== "EEXIST" && code !== "ENOENT") throw reason;
  }
  await removeDurably(aside);
}

async function linkedNames(repositories: readonly string[]): Promise<Set<string>> {
  const linked = new Set<string>();
  for (const repository of repositories) {
    for (const kind of LINKS) {
      const entries = (await unlessAbsent(readdir(join(repository, kind)))) ?? [];
      // A link that is aside may yet be put back, by another collector.
      for (const name of entries) linked.add(name.replace(ASIDE, ""));
    }
  }
  return linked;
}

async function isLinked(repositories: readonly string[], name: string): Promise<boolean> {
  for (const repository of repositories) {
    for (const kind of LINKS) {
      for (const entry of [name, `${ASIDE}${name}`]) {
        if (await unlessAbsent(stat(join(repository, kind, entry)))) return true;
      }
    }
  }
  return false;
}
