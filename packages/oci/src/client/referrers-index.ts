// What refers to a manifest, in registries without the referrers API: an index under a tag made of
// the digest, which clients keep up to date themselves (distribution specification, referrers tag
// schema). Two clients that write at the same moment can lose one of the entries; within one client
// changes come one after the other.

import type { Digest } from "@exclave/core";
import { type ContentStore, isMissing } from "../content/content-store.ts";
import {
  childrenOf,
  type Descriptor,
  MEDIA_TYPES,
  type ParsedManifest,
  parseManifest,
  referrerDescriptor,
} from "../content/descriptor.ts";
import { splitDigest } from "../content/digest.ts";

export interface ReferrersIndex {
  list(repository: string, subject: Digest, signal?: AbortSignal): Promise<Descriptor[]>;
  add(repository: string, subject: Digest, referrer: Referrer, signal?: AbortSignal): Promise<void>;
}

export interface Referrer {
  readonly parsed: ParsedManifest;
  readonly digest: Digest;
  readonly mediaType: string;
  readonly size: number;
}

export function createReferrersIndex(
  store: Pick<ContentStore, "readManifest" | "writeManifest">,
): ReferrersIndex {
  let lastChange: Promise<unknown> = Promise.resolve();

  return {
    list,
    async add(repository, subject, referrer, signal) {
      const mine = lastChange.then(() => change(repository, subject, referrer, signal));
      lastChange = mine.catch(() => undefined);
      await mine;
    },
  };

  async function list(repository: string, subject: Digest, signal?: AbortSignal) {
    try {
      const { bytes } = await store.readManifest(repository, tagOf(subject), { signal });
      // Whatever type it was given, it is read as what has to lie under this tag.
      return childrenOf(parseManifest(bytes, MEDIA_TYPES.index));
    } catch (reason) {
      if (isMissing(reason)) return [];
      throw reason;
    }
  }

  async function change(
    repository: string,
    subject: Digest,
    referrer: Referrer,
    signal?: AbortSignal,
  ): Promise<void> {
    const listed = await list(repository, subject, signal);
    if (listed.some(({ digest }) => digest === referrer.digest)) return;
    const manifests = [...listed, referrerDescriptor(referrer.parsed, referrer)];
    const index = { schemaVersion: 2, mediaType: MEDIA_TYPES.index, manifests };
    const bytes = Buffer.from(JSON.stringify(index));
    await store.writeManifest(repository, bytes, MEDIA_TYPES.index, tagOf(subject), { signal });
  }
}

/** A tag has no room for a sha512: the specification cuts it to 64 characters. */
function tagOf(digest: Digest): string {
  const { algorithm, hex } = splitDigest(digest);
  return `${algorithm}-${hex.slice(0, 64)}`;
}
