// What a copy has to bring: every manifest that leads to something the destination lacks.

import { type Digest, Failure } from "@exclave/core";
import type { ContentStore, StoredManifest } from "../content/content-store.ts";
import { blobsOf, childrenOf, type Descriptor, parseManifest } from "../content/descriptor.ts";

/** Every manifest of the artifact, each one after those that list it or that it is about. */
export type CopyTree = readonly {
  readonly manifest: StoredManifest;
  readonly blobs: readonly Descriptor[];
  /** Those of its children that are brought. */
  readonly children: readonly Descriptor[];
  /** It lists children that are left out. */
  readonly isSparse: boolean;
  /** It need not be written again, nor its blobs looked for. */
  readonly isThere: boolean;
}[];

export interface ReadTree {
  readonly from: ContentStore;
  readonly to: ContentStore;
  readonly source: { readonly repository: string; readonly digest: Digest };
  readonly target: { readonly repository: string };
  readonly referrers?: boolean;
  readonly platforms?: readonly string[] | undefined;
  readonly signal?: AbortSignal | undefined;
}

export async function readTree(options: ReadTree): Promise<CopyTree> {
  const { from, to, source, target, platforms, signal } = options;
  const found = new Map<Digest, CopyTree[number]>();
  await visit(source.digest);
  return [...found.values()];

  async function visit(digest: Digest, { isListed } = { isListed: true }): Promise<void> {
    const known = found.get(digest) ?? (await read(digest, isListed));
    // Met again, it moves behind its newest parent, so that reversed it still comes first.
    found.delete(digest);
    found.set(digest, known);
    // An index that is there has its children, unless platforms are chosen and it may lack some; but
    // one of them may have been signed since.
    const isDone = known.isThere && !platforms && !options.referrers;
    for (const child of isDone ? [] : known.children) await visit(child.digest);
    if (!options.referrers) return;
    for (const referrer of await readReferrers(options, digest)) {
      if (!found.has(referrer.digest)) await visit(referrer.digest, referrer);
    }
  }

  async function read(digest: Digest, isListed: boolean): Promise<CopyTree[number]> {
    const manifest = await from.readManifest(source.repository, digest, { signal });
    const parsed = parseManifest(manifest.bytes, manifest.mediaType);
    const all = childrenOf(parsed);
    const children = choosePlatforms(all, platforms);
    const isSparse = children.length < all.length;
    // The top one was looked for already, unless platforms are chosen.
    const isKnownMissing = digest === source.digest && !platforms;
    const head =
      isKnownMissing || !isListed
        ? undefined
        : await to.headManifest(target.repository, digest, { signal });
    const blobs = blobsOf(parsed);
    return { manifest, blobs, children, isSparse, isThere: head !== undefined };
  }
}

export interface CopiedReferrer {
  readonly digest: Digest;
  /**
   * Whether it can be found at the destination. Where clients keep the list themselves, one whose
   * copy was cut short is there and yet in no list: written again, it gets into it.
   */
  readonly isListed: boolean;
}

/** What refers to a manifest at the source. The destination is only asked if there is something. */
export async function readReferrers(
  { from, to, source, target, signal }: ReadTree,
  subject: Digest,
): Promise<readonly CopiedReferrer[]> {
  const wanted = await from.referrers(source.repository, subject, { signal });
  if (wanted.length === 0) return [];
  const listed = await to.referrers(target.repository, subject, { signal });
  const found = new Set(listed.map(({ digest }) => digest));
  return wanted.map(({ digest }) => ({ digest, isListed: found.has(digest) }));
}

const PLATFORM = /^[a-z0-9]+\/[a-z0-9_]+(?:\/[a-z0-9._]+)?$/;

/** What people choose is `os/architecture`, with a variant if need be, or `all`. */
export function checkPlatforms(platforms: readonly string[]): void {
  const wrong = platforms.find((wanted) => wanted !== "all" && !PLATFORM.test(wanted));
  if (wrong === undefined && platforms.length > 0) return;
  throw new Failure(
    "invalid",
    `${JSON.stringify(wrong ?? "")} is not a platform: one is written like linux/amd64 or linux/arm64/v8`,
  );
}

/**
 * Children for a chosen platform, those for none at all, and what is said about a kept one. Fails if
 * there are platforms to choose from and none of them was meant.
 */
export function choosePlatforms(
  children: readonly Descriptor[],
  platforms: readonly string[] | undefined,
): readonly Descriptor[] {
  if (!platforms || platforms.includes("all")) return children;
  const offered = children.filter(isForPlatform);
  const meant = offered.filter((child) => platforms.some((wanted) => isFor(child, wanted)));
  if (offered.length > 0 && meant.length === 0) {
    const names = [...new Set(offered.map(platformName))].join(", ");
    throw new Failure(
      "not_found",
      `there is nothing for ${platforms.join(", ")}, only for ${names}`,
    );
  }
  const unbound = children.filter(({ platform }) => platform === undefined);
  const chosen = new Set([...meant, ...unbound].map(({ digest }) => digest as string));
  // Builders list attestations as children of an unknown platform, with what they are about.
  const about = ({ annotations }: Descriptor) => annotations?.["vnd.docker.reference.digest"];
  return children.filter((child) => chosen.has(child.digest) || chosen.has(about(child) ?? ""));
}

function isForPlatform({ platform }: Descriptor): boolean {
  return platform !== undefined && platform.os !== "unknown";
}

function isFor({ platform }: Descriptor, wanted: string): boolean {
  const [os, architecture, variant] = wanted.split("/");
  return (
    platform?.os === os &&
    platform?.architecture === architecture &&
    (variant === undefined || platform?.variant === variant)
  );
}

function platformName({ platform }: Descriptor): string {
  const parts = [platform?.os, platform?.architecture, platform?.variant];
  return parts.filter((part) => part !== undefined).join("/");
}
