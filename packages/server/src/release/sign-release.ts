// Signs a release's index with the release key. The signature is made here, where the key is, as the
// finished artifact; it is pushed by the build agent, which is the only one that pushes.

import { type ArtifactRef, type Digest, Failure } from "@exclave/core";
import {
  blobsOf,
  type ContentStore,
  createMemoryStore,
  createSigner,
  MEDIA_TYPES,
  parseManifest,
  readBlobBytes,
  signArtifact,
} from "@exclave/oci";
import type { SigningKey } from "../keys.ts";

/** An artifact small enough to travel in a manifest's parameters; contents are base64. */
export interface AttachedArtifact {
  readonly digest: Digest;
  readonly mediaType: string;
  readonly manifest: string;
  readonly blobs: readonly { readonly mediaType: string; readonly content: string }[];
}

export interface SignRelease {
  readonly index: ArtifactRef;
  readonly sizeBytes: number;
}

export async function signRelease(
  { privateKey }: Pick<SigningKey, "privateKey">,
  { index, sizeBytes }: SignRelease,
): Promise<AttachedArtifact> {
  const { repository, digest } = index;
  const store: ContentStore = {
    ...createMemoryStore(),
    // The index itself is in the registry; what it is was said by the job that wrote it.
    headManifest: async () => ({ digest, mediaType: MEDIA_TYPES.index, size: sizeBytes }),
  };
  const signature = await signArtifact({
    store,
    repository,
    digest,
    signer: createSigner(privateKey),
  });
  const { bytes, mediaType } = await store.readManifest(repository, signature);
  const parsed = parseManifest(bytes, mediaType);
  if (parsed.kind !== "manifest") throw new Failure("bug", "a signature is an artifact manifest");
  const blobs = blobsOf(parsed).map(async (blob) => ({
    mediaType: blob.mediaType,
    content: toText(await readBlobBytes(store, repository, blob)),
  }));
  return {
    digest: signature,
    mediaType,
    manifest: toText(bytes),
    blobs: await Promise.all(blobs),
  };
}

function toText(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}
