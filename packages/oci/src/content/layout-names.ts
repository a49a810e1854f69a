// What a layout calls its content. Ours name manifests `<repository>:<tag>`, other tools by a tag
// alone; a person may use either, or no name at all where there is only one.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Digest, Failure } from "@exclave/core";
import { ImageIndex, Tag } from "./descriptor.ts";
import type { LayoutReference } from "./reference.ts";

export interface LayoutEntry {
  readonly name: string | undefined;
  readonly repository: string;
  readonly digest: Digest;
}

/** For content that came without a repository. */
export const NAMELESS = "artifact";

export async function listLayout(directory: string): Promise<LayoutEntry[]> {
  const file = join(directory, "index.json");
  let value: unknown;
  try {
    value = JSON.parse(await readFile(file, "utf8"));
  } catch (cause) {
    throw new Failure("not_found", `there is no OCI layout at ${directory}`, { cause });
  }
  const index = ImageIndex.safeParse(value);
  if (!index.success) throw new Failure("invalid", `${file} is not an OCI index`);
  return index.data.manifests.map(({ digest, annotations }) => ({
    name: annotations?.["org.opencontainers.image.ref.name"],
    repository: annotations?.["dev.exclave.repository"] ?? NAMELESS,
    digest,
  }));
}

export function findInLayout(
  entries: readonly LayoutEntry[],
  { name, digest: wanted }: Pick<LayoutReference, "name" | "digest">,
  where: string,
): LayoutEntry {
  if (wanted !== undefined) {
    const listed = entries.find(({ digest }) => digest === wanted);
    return listed ?? { name: undefined, repository: NAMELESS, digest: wanted };
  }
  const named = entries.filter((entry) => entry.name !== undefined);
  const found =
    name === undefined
      ? named.length > 0
        ? named
        : entries
      : exactOr(named, name, (entry) => isCalled(entry, name));
  const [only, ...others] = found;
  if (only && others.length === 0) return only;
  const list = named.map((entry) => entry.name).join(", ") || "nothing with a name";
  if (!only)
    throw new Failure("not_found", `there is no ${name ?? "content"} in ${where}, but ${list}`);
  throw new Failure("invalid", `${where} has more than one of these: ${list}; say which is meant`);
}

function exactOr(
  entries: readonly LayoutEntry[],
  name: string,
  isLike: (entry: LayoutEntry) => boolean,
): readonly LayoutEntry[] {
  const exact = entries.filter((entry) => entry.name === name);
  return exact.length > 0 ? exact : entries.filter(isLike);
}

/** By its tag alone, or with the repository it came from. */
function isCalled({ name: known = "", repository }: LayoutEntry, name: string): boolean {
  return known.endsWith(`:${name}`) || `${repository}:${known}` === name;
}

/** Where a new entry goes: `repository:tag`, a tag alone, or nothing but the repository it came from. */
export function placeInLayout(
  { name, digest }: Pick<LayoutReference, "name" | "digest">,
  cameFrom: { readonly repository: string; readonly tag?: string | undefined },
): { readonly repository: string; readonly tag: string | undefined } {
  if (name === undefined) {
    const tag = digest === undefined ? (cameFrom.tag ?? "latest") : undefined;
    return { repository: cameFrom.repository, tag };
  }
  const [, repository = cameFrom.repository, tag = name] = /^(.+):([^:/]+)$/.exec(name) ?? [];
  return { repository, tag };
}

/** A name without a repository is written as it is, so that every tool finds it by that name. */
export function isBareName(name: string | undefined): boolean {
  return Tag.safeParse(name).success;
}
