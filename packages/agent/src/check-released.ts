// Whether something was released: listed, in its repository and by its digest, in a release's index
// that the vendor's release key has signed. All of it is read from the install's own registry; what
// the index lists goes by the vendor's names, wherever in that registry the index itself lies. The
// director's signature says what this install should do; without this one it is not done.

import { createPublicKey } from "node:crypto";
import {
  type ArtifactRef,
  artifactKey,
  type Digest,
  Failure,
  REPOSITORY_ANNOTATION,
} from "@exclave/core";
import { type ContentStore, parseManifest, verifyArtifactSignature } from "@exclave/oci";
import { ownPlace, type RegistryShare } from "./own-repository.ts";

export interface CheckReleased {
  /** The release key that was pinned when the agent joined, base64 SPKI DER. */
  readonly releaseKey: string;
  readonly share: RegistryShare;
  /** Opens the install's registry for these repositories, for as long as `read` takes. */
  readonly withRegistry: <Value>(
    repositories: readonly string[],
    read: (store: ContentStore) => Promise<Value>,
  ) => Promise<Value>;
}

/** Fails with `signature` unless every one of `refs` is listed by one of the signed `releases`. */
export type Released = (
  releases: readonly ArtifactRef[],
  refs: readonly ArtifactRef[],
) => Promise<void>;

const REMEMBERED_MAX = 100;

export function createCheckReleased({ releaseKey, share, withRegistry }: CheckReleased): Released {
  const key = { key: Buffer.from(releaseKey, "base64"), format: "der", type: "spki" } as const;
  const publicKeys = [createPublicKey(key)];
  // What a digest lists never changes, and neither does who signed it.
  const known = new Map<Digest, ReadonlySet<string>>();

  return async (releases, refs) => {
    const listed = new Set<string>();
    for (const release of releases) {
      for (const entry of known.get(release.digest) ?? (await verify(release))) listed.add(entry);
    }
    const stranger = refs.find((ref) => !listed.has(artifactKey(ref)));
    if (stranger) {
      throw new Failure("signature", `no signed release lists ${artifactKey(stranger)}`);
    }
  };

  async function verify(release: ArtifactRef): Promise<ReadonlySet<string>> {
    const { repository, digest } = ownPlace(share, release);
    const entries = await withRegistry([repository], async (store) => {
      const verdict = await verifyArtifactSignature({ store, repository, digest, publicKeys });
      if (verdict.kind === "unsigned") {
        const message = `the release ${digest} does not carry the vendor's signature: ${verdict.because}`;
        throw new Failure("signature", message);
      }
      return readEntries(store, repository, digest);
    });
    if (known.size >= REMEMBERED_MAX) known.clear();
    known.set(digest, entries);
    return entries;
  }
}

async function readEntries(
  store: ContentStore,
  repository: string,
  digest: Digest,
): Promise<ReadonlySet<string>> {
  const { bytes, mediaType } = await store.readManifest(repository, digest);
  const parsed = parseManifest(bytes, mediaType);
  if (parsed.kind !== "index") {
    throw new Failure("signature", `${digest} is signed, but it is no release`);
  }
  return new Set(
    parsed.index.manifests.flatMap((entry) => {
      const home = entry.annotations?.[REPOSITORY_ANNOTATION];
      return home === undefined ? [] : [artifactKey({ repository: home, digest: entry.digest })];
    }),
  );
}
