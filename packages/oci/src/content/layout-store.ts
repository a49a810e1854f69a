// An OCI image layout on disk: what an air-gap bundle and a materialised artifact are. A layout has
// one pool of blobs, so its repositories share them; `index.json` names manifests, as
// `<repository>:<tag>` in the customary annotation, or by tag alone where another tool wrote it.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Digest, Failure } from "@exclave/core";
import { createBlobFiles, readFileIfThere, writeFileDurably } from "./blob-files.ts";
import {
  type ContentStore,
  checkManifestBlobs,
  checkRepository,
  checkTag,
  isDigest,
  manifestDigest,
  missing,
} from "./content-store.ts";
import {
  childrenOf,
  type Descriptor,
  ImageIndex,
  MEDIA_TYPES,
  manifestTypeOf,
  parseManifest,
  referrerDescriptor,
  subjectOf,
} from "./descriptor.ts";
import { bytesOf, collect, verified } from "./digest.ts";

const REF_NAME = "org.opencontainers.image.ref.name";
const REPOSITORY = "dev.exclave.repository";
const MANIFEST_BYTES_MAX = 4 * 1024 * 1024;

export interface LayoutStoreOptions {
  readonly directory: string;
  /** A tag is the whole name of an entry, as other tools have it; the repository is only noted. */
  readonly hasBareNames?: boolean;
}

export function createLayoutStore(options: LayoutStoreOptions): ContentStore {
  const { directory, hasBareNames = false } = options;
  const files = createBlobFiles(directory);
  const indexFile = join(directory, "index.json");
  let lastChange: Promise<unknown> = Promise.resolve();

  const store: ContentStore = {
    async headBlob(_repository, digest) {
      return files.size(digest);
    },

    async headManifest(repository, reference) {
      const entry = await find(repository, reference);
      return entry && { digest: entry.digest, mediaType: entry.mediaType, size: entry.size };
    },

    async *readBlob(repository, digest, { from = 0 } = {}) {
      if ((await files.size(digest)) === undefined) throw missing(`blob ${digest}`, repository);
      yield* files.read(digest, { from });
    },

    async writeBlob(repository, descriptor, source, { signal } = {}) {
      checkRepository(repository);
      if ((await files.size(descriptor.digest)) !== undefined) return;
      await files.write(descriptor, source, signal);
    },

    async readManifest(repository, reference) {
      const entry = await find(repository, reference);
      if (!entry) throw missing(`manifest ${reference}`, repository);
      const bytes = await manifestBytes(entry.digest);
      return { bytes, mediaType: entry.mediaType, digest: entry.digest };
    },

    async writeManifest(repository, bytes, mediaType, tag, { digest: expected } = {}) {
      checkRepository(repository);
      if (tag !== undefined) checkTag(tag);
      const digest = manifestDigest(bytes, expected);
      await checkManifestBlobs(store, repository, bytes, mediaType);
      await files.write({ digest, size: bytes.length }, () => bytesOf(bytes));

      const name = tag === undefined ? undefined : nameOf(repository, tag);
      const annotations = { ...(name && { [REF_NAME]: name }), [REPOSITORY]: repository };
      const children = new Set(childrenOf(parseManifest(bytes, mediaType)).map((c) => c.digest));
      await changeIndex((entries) => [
        ...entries.filter(
          (entry) =>
            (name === undefined || entry.annotations?.[REF_NAME] !== name) &&
            !isReplaced(entry, repository, tag, digest, children),
        ),
        { mediaType, digest, size: bytes.length, annotations },
      ]);
      return digest;
    },

    async mountBlob(_from, to, digest) {
      checkRepository(to);
      return (await files.size(digest)) !== undefined;
    },

    async tags(repository) {
      const names = (await entries()).map((entry) => tagOf(entry, repository));
      return [...new Set(names.filter((name) => name !== undefined))].sort();
    },

    async referrers(repository, digest, { artifactType } = {}) {
      const found = new Map<Digest, Descriptor>();
      for (const entry of await entries()) {
        if ((entry.annotations?.[REPOSITORY] ?? repository) !== repository) continue;
        const parsed = parseManifest(await manifestBytes(entry.digest), entry.mediaType);
        if (subjectOf(parsed)?.digest !== digest) continue;
        const referrer = referrerDescriptor(parsed, entry);
        if (artifactType === undefined || referrer.artifactType === artifactType) {
          found.set(entry.digest, referrer);
        }
      }
      return [...found.values()];
    },
  };
  return store;

  function nameOf(repository: string, tag: string): string {
    return hasBareNames ? tag : `${repository}:${tag}`;
  }

  async function find(repository: string, reference: string): Promise<Descriptor | undefined> {
    if (!isDigest(reference)) return findTagged(repository, reference);
    const listed = (await entries()).find((entry) => entry.digest === reference);
    if (listed) return listed;
    // A child of an index is not listed by name: it is a file like any other.
    const size = await files.size(reference);
    if (size === undefined || size > MANIFEST_BYTES_MAX) return undefined;
    try {
      const mediaType = manifestTypeOf(await manifestBytes(reference));
      return { mediaType, digest: reference, size };
    } catch {
      return undefined;
    }
  }

  async function findTagged(repository: string, tag: string): Promise<Descriptor | undefined> {
    const all = await entries();
    if (!hasBareNames) return all.find((entry) => tagOf(entry, repository) === tag);
    // One under another name, or of nobody's repository, is not yet what is to be written here.
    const isOurs = ({ annotations }: Descriptor) =>
      annotations?.[REF_NAME] === tag && annotations[REPOSITORY] === repository;
    return all.find(isOurs);
  }

  async function manifestBytes(digest: Digest): Promise<Uint8Array> {
    return collect(verified(files.read(digest), { digest }), MANIFEST_BYTES_MAX);
  }

  async function entries(): Promise<Descriptor[]> {
    const text = await readFileIfThere(indexFile);
    if (!text) return [];
    const index = ImageIndex.safeParse(JSON.parse(text.toString("utf8")));
    if (index.success) return index.data.manifests;
    throw new Failure("invalid", `${indexFile} is not an OCI index`, { cause: index.error });
  }

  /** One change at a time: two of them side by side would lose one. */
  async function changeIndex(change: (entries: Descriptor[]) => Descriptor[]): Promise<void> {
    const mine = after(lastChange, async () => {
      await mkdir(directory, { recursive: true });
      await writeFileDurably(
        join(directory, "oci-layout"),
        `${JSON.stringify({ imageLayoutVersion: "1.0.0" })}\n`,
      );
      const manifests = change(await entries());
      const index = { schemaVersion: 2, mediaType: MEDIA_TYPES.index, manifests };
      await writeFileDurably(indexFile, `${JSON.stringify(index, null, 2)}\n`);
    });
    lastChange = mine.catch(() => undefined);
    await mine;
  }
}

async function after(earlier: Promise<unknown>, work: () => Promise<void>): Promise<void> {
  await earlier;
  await work();
}

/** Names are `<repository>:<tag>`, or a tag alone: of the repository noted beside it, if there is one. */
function tagOf(entry: Descriptor, repository: string): string | undefined {
  const name = entry.annotations?.[REF_NAME];
  if (name === undefined) return undefined;
  if (name.startsWith(`${repository}:`)) return name.slice(repository.length + 1);
  const noted = entry.annotations?.[REPOSITORY] ?? repository;
  return noted === repository && !name.includes(":") ? name : undefined;
}

/** An entry goes when its tag moves, when it is written again, or when an index now leads to it. */
function isReplaced(
  entry: Descriptor,
  repository: string,
  tag: string | undefined,
  digest: Digest,
  children: ReadonlySet<Digest>,
): boolean {
  if (entry.annotations?.[REPOSITORY] !== repository) return false;
  const name = tagOf(entry, repository);
  if (name !== undefined) return name === tag;
  return entry.digest === digest || children.has(entry.digest);
}
