// The small files that say what belongs to a repository, one by one.

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Digest } from "@exclave/core";
import { unlessAbsent } from "@exclave/machine";
import { z } from "zod";
import { readFileIfThere } from "../../content/blob-files.ts";
import { Descriptor } from "../../content/descriptor.ts";
import { splitDigest } from "../../content/digest.ts";

export const ManifestLink = z.object({ mediaType: z.string() });
export type ManifestLink = z.infer<typeof ManifestLink>;

/** Files read at once: each is one that is open, and a process may have about a thousand. */
const READS_MAX = 16;

export interface ReferrersWanted {
  readonly artifactType?: string | undefined;
  /** Only those whose digest comes after this one. */
  readonly last?: string;
}

/** How a link to something with this digest is called. */
export function linkName(digest: Digest): string {
  const { algorithm, hex } = splitDigest(digest);
  return `${algorithm}-${hex}`;
}

/** Entries of a directory, without files that are still being written. */
export async function linksIn(directory: string): Promise<string[]> {
  const found = (await unlessAbsent(readdir(directory))) ?? [];
  return found.filter((name) => !name.startsWith(":"));
}

/** As what a repository took a manifest in; undefined where it did not. */
export async function readManifestType(link: string): Promise<string | undefined> {
  const text = await readFileIfThere(link);
  return text && ManifestLink.parse(JSON.parse(text.toString("utf8"))).mediaType;
}

/** Referrers in the order of their digests, read as they are asked for. */
export async function* readReferrers(
  directory: string,
  { artifactType, last = "" }: ReferrersWanted,
): AsyncIterable<Descriptor> {
  const names = (await linksIn(directory)).filter((name) => name.replace("-", ":") > last).sort();
  for (let at = 0; at < names.length; at += READS_MAX) {
    const group = names.slice(at, at + READS_MAX).map((name) => join(directory, name));
    for (const text of await Promise.all(group.map(readFileIfThere))) {
      if (text === undefined) continue;
      const entry = Descriptor.parse(JSON.parse(text.toString("utf8")));
      if (artifactType === undefined || entry.artifactType === artifactType) yield entry;
    }
  }
}
