// What a set of manifests holds: their children, blobs and referrers, all the way down. A token that
// lists a release's digests opens exactly this.

import type { Digest } from "@exclave/core";
import {
  blobsOf,
  childrenOf,
  manifestTypeOf,
  type ParsedManifest,
  parseManifest,
} from "../content/descriptor.ts";
import { collect } from "../content/digest.ts";
import type { RegistryFiles } from "./files/registry-files.ts";

export interface Reach {
  /** Whether a digest is one of the roots, held by one of them, or about something that is. */
  holds(roots: readonly Digest[], digest: Digest, repository: string): Promise<boolean>;
}

const CACHE_MAX = 1_000;
const MANIFEST_BYTES_MAX = 4 * 1024 * 1024;

export function createReach(files: RegistryFiles): Reach {
  // A manifest never changes, so what it holds does not either. What it is, its repository says.
  const held = new Map<string, { blobs: Digest[]; children: Digest[] }>();

  return { holds };

  async function holds(roots: readonly Digest[], digest: Digest, repository: string) {
    if (roots.includes(digest)) return true;
    const seen = new Set<Digest>();
    const waiting = [...roots];
    const manifests: Digest[] = [];
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      if (seen.has(next)) continue;
      seen.add(next);
      manifests.push(next);
      const { blobs, children } = await contents(repository, next);
      if (blobs.includes(digest) || children.includes(digest)) return true;
      waiting.push(...children);
    }
    // Signatures come later than what they sign and are not listed by it: look them up last.
    for (const subject of manifests) {
      for (const referrer of await files.referrers(repository, subject)) {
        if (referrer.digest === digest) return true;
        if ((await contents(repository, referrer.digest)).blobs.includes(digest)) return true;
      }
    }
    return false;
  }

  async function contents(repository: string, digest: Digest) {
    const key = `${repository}@${digest}`;
    const known = held.get(key);
    if (known) return known;
    const parsed = await read(repository, digest);
    if (!parsed) return { blobs: [], children: [] };
    const found = {
      blobs: blobsOf(parsed).map((blob) => blob.digest),
      children: childrenOf(parsed).map((child) => child.digest),
    };
    if (held.size >= CACHE_MAX) held.clear();
    held.set(key, found);
    return found;
  }

  async function read(repository: string, digest: Digest): Promise<ParsedManifest | undefined> {
    const size = await files.blobs.size(digest);
    if (size === undefined || size > MANIFEST_BYTES_MAX) return undefined;
    const bytes = await collect(files.blobs.read(digest));
    try {
      const head = await files.headManifest(repository, digest);
      return parseManifest(bytes, head?.mediaType ?? manifestTypeOf(bytes));
    } catch {
      return undefined;
    }
  }
}
