// The small files that say what belongs to a repository, one by one.

import type { Digest } from "@exclave/core";
import { z } from "zod";
import { isDigest } from "../../content/content-store.ts";
import { Descriptor, isManifestType } from "../../content/descriptor.ts";
import { splitDigest } from "../../content/digest.ts";
import type { RegistryTree } from "./registry-tree.ts";

type Reader = Pick<RegistryTree, "read">;

export const ManifestLink = z.object({ mediaType: z.string() });
export type ManifestLink = z.infer<typeof ManifestLink>;

/** Files read at once: each is one that is open, and a process may have about a thousand. */
const READS_MAX = 16;

export interface ReferrersWanted {
  readonly artifactType?: string | undefined;
  /** Only those whose digest comes after this one. */
  readonly last?: string;
}

/** An entry made anew from the manifest itself; undefined when that is gone too. */
export type RemakeReferrer = (digest: Digest) => Promise<Descriptor | undefined>;

/** How a link to something with this digest is called. */
export function linkName(digest: Digest): string {
  const { algorithm, hex } = splitDigest(digest);
  return `${algorithm}-${hex}`;
}

/**
 * As what a repository took a manifest in; undefined where it did not. A link that was damaged on disk is as good
 * as none: whoever copies finds the manifest missing and brings it again.
 */
export async function readManifestType(tree: Reader, link: string): Promise<string | undefined> {
  const mediaType = readLink(await tree.read(link), ManifestLink)?.mediaType;
  return mediaType !== undefined && isManifestType(mediaType) ? mediaType : undefined;
}

/** What a tag points at; undefined where there is none, or where it was damaged on disk. */
export async function readTagLink(tree: Reader, link: string): Promise<Digest | undefined> {
  const text = (await tree.read(link))?.toString("utf8");
  return text !== undefined && isDigest(text) ? text : undefined;
}

function readLink<Link>(bytes: Buffer | undefined, schema: z.ZodType<Link>): Link | undefined {
  if (bytes === undefined) return undefined;
  try {
    return schema.safeParse(JSON.parse(bytes.toString("utf8"))).data;
  } catch {
    return undefined;
  }
}

/** Referrers in the order of their digests, read as they are asked for. */
export async function* readReferrers(
  tree: Pick<RegistryTree, "read" | "names">,
  folder: string,
  { artifactType, last = "" }: ReferrersWanted,
  remake: RemakeReferrer,
): AsyncIterable<Descriptor> {
  const names = (await tree.names(folder)).filter((name) => name.replace("-", ":") > last).sort();
  for (let at = 0; at < names.length; at += READS_MAX) {
    const group = names.slice(at, at + READS_MAX);
    for (const entry of await Promise.all(group.map((name) => readReferrer(name)))) {
      if (entry === undefined) continue;
      if (artifactType === undefined || entry.artifactType === artifactType) yield entry;
    }
  }

  async function readReferrer(name: string): Promise<Descriptor | undefined> {
    const bytes = await tree.read(`${folder}/${name}`);
    if (bytes === undefined) return undefined;
    const digest = name.replace("-", ":") as Digest;
    const entry = readLink(bytes, Descriptor);
    return entry?.digest === digest ? entry : remake(digest);
  }
}
