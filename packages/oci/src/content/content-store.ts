// Where content lies: a registry, a layout on disk, memory. Blobs and manifests are known by digest
// within a repository; tags are names that can move.

import type { Digest } from "@exclave/core";
import { Failure } from "@exclave/core";
import {
  blobsOf,
  type Descriptor,
  ImageConfig,
  type ImageManifest,
  parseManifest,
  RepositoryName,
  Tag,
} from "./descriptor.ts";
import { type ByteSource, bytesOf, collect, createVerifier, digestOf, verified } from "./digest.ts";

export interface StoredManifest {
  /** Exactly as they were written: the digest is over these. */
  readonly bytes: Uint8Array;
  readonly mediaType: string;
  readonly digest: Digest;
}

export interface ManifestHead {
  readonly digest: Digest;
  readonly mediaType: string;
  readonly size: number;
}

export interface Waiting {
  readonly signal?: AbortSignal | undefined;
}

export interface ContentStore {
  /** The size of a blob that is here, undefined if it is not. */
  headBlob(repository: string, digest: Digest, options?: Waiting): Promise<number | undefined>;

  /**
   * What a tag or digest stands for here, undefined if nothing. With `verify`, a registry that can
   * checks every byte it has of it first, and no longer has what turned out to be damaged.
   */
  headManifest(
    repository: string,
    reference: string,
    options?: Waiting & { readonly verify?: boolean },
  ): Promise<ManifestHead | undefined>;

  /** Bytes as they are stored, unchecked: whoever keeps or uses them checks them (`verified`). */
  readBlob(
    repository: string,
    digest: Digest,
    options?: Waiting & { readonly from?: number },
  ): AsyncIterable<Uint8Array>;

  /**
   * All or nothing: bytes that do not have this digest and size leave no trace. A source that can
   * be opened again lets a broken upload go on where it stopped. One that is here is not read.
   */
  writeBlob(
    repository: string,
    descriptor: Pick<Descriptor, "digest" | "size">,
    source: ByteSource,
    options?: Waiting,
  ): Promise<void>;

  /** A manifest by tag or digest; bytes asked for by digest are checked. */
  readManifest(repository: string, reference: string, options?: Waiting): Promise<StoredManifest>;

  /**
   * Refused while a blob it needs is missing. The tag, if any, moves last. It is found under the
   * digest it is expected to have, sha256 unless one is given; other bytes are refused.
   */
  writeManifest(
    repository: string,
    bytes: Uint8Array,
    mediaType: string,
    tag?: string,
    options?: Waiting & { readonly digest?: Digest | undefined },
  ): Promise<Digest>;

  /** Makes a blob of one repository one of another without moving bytes; false if it cannot. */
  mountBlob(from: string, to: string, digest: Digest, options?: Waiting): Promise<boolean>;

  /** In lexical order. */
  tags(repository: string, options?: Waiting): Promise<string[]>;

  /** Manifests whose `subject` is this digest, whether or not that one is here. */
  referrers(
    repository: string,
    digest: Digest,
    options?: Waiting & { readonly artifactType?: string | undefined },
  ): Promise<Descriptor[]>;
}

export function missing(what: string, repository: string): Failure {
  return new Failure("not_found", `there is no ${what} in ${repository}`);
}

export function isMissing(reason: unknown): boolean {
  return reason instanceof Failure && reason.code === "not_found";
}

export function isDigest(reference: string): reference is Digest {
  return reference.includes(":");
}

export function checkRepository(repository: string): void {
  if (RepositoryName.safeParse(repository).success) return;
  throw new Failure("invalid", `${JSON.stringify(repository)} cannot be the name of a repository`);
}

export function checkTag(tag: string): void {
  if (Tag.safeParse(tag).success) return;
  throw new Failure("invalid", `${JSON.stringify(tag)} cannot be a tag`);
}

/** The name a manifest goes by: the one it is known by elsewhere, if these are its bytes. */
export function manifestDigest(bytes: Uint8Array, expected: Digest | undefined): Digest {
  if (expected === undefined) return digestOf(bytes);
  const verifier = createVerifier({ digest: expected });
  verifier.update(bytes, 0);
  verifier.finish();
  return expected;
}

/** What each store asks before it takes a manifest. */
export async function checkManifestBlobs(
  store: Pick<ContentStore, "headBlob">,
  repository: string,
  bytes: Uint8Array,
  mediaType: string,
): Promise<void> {
  for (const { digest } of blobsOf(parseManifest(bytes, mediaType))) {
    if ((await store.headBlob(repository, digest)) === undefined) {
      throw missing(`blob ${digest}, which the manifest needs,`, repository);
    }
  }
}

/** A small blob, whole and checked. */
export async function readBlobBytes(
  store: ContentStore,
  repository: string,
  descriptor: Pick<Descriptor, "digest" | "size">,
): Promise<Uint8Array> {
  return collect(verified(store.readBlob(repository, descriptor.digest), descriptor));
}

export async function writeBlobBytes(
  store: ContentStore,
  repository: string,
  mediaType: string,
  bytes: Uint8Array,
): Promise<Descriptor> {
  const descriptor = { mediaType, digest: digestOf(bytes), size: bytes.length };
  await store.writeBlob(repository, descriptor, () => bytesOf(bytes));
  return descriptor;
}

export interface Image {
  readonly digest: Digest;
  readonly manifest: ImageManifest;
  readonly config: ImageConfig;
}

/** An image's manifest and configuration. */
export async function readImage(
  store: ContentStore,
  repository: string,
  reference: string,
): Promise<Image> {
  const { bytes, mediaType, digest } = await store.readManifest(repository, reference);
  const parsed = parseManifest(bytes, mediaType);
  if (parsed.kind === "index") {
    throw new Failure("invalid", `${repository}@${digest} is an index, not an image`);
  }
  const raw = await readBlobBytes(store, repository, parsed.manifest.config);
  const config = ImageConfig.safeParse(JSON.parse(Buffer.from(raw).toString("utf8")));
  if (!config.success) {
    throw new Failure("invalid", `${repository}@${digest} is not a container image`, {
      cause: config.error,
    });
  }
  return { digest, manifest: parsed.manifest, config: config.data };
}
