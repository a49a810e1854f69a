// Puts layers on a disk. An archive is input like any other: it may not write, link or point outside
// the directory it is unpacked into, and brings no devices and no set-user-id programs.

import { createWriteStream } from "node:fs";
import { chmod, link, lstat, mkdir, readdir, rm, symlink } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import { Readable, type Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import {
  type ArchiveBudget,
  type ArchiveLimits,
  createArchiveBudget,
  type Digest,
  Failure,
} from "@exclave/core";
import { unlessAbsent } from "../content/blob-files.ts";
import { type ContentStore, type Image, readImage } from "../content/content-store.ts";
import { parseManifest } from "../content/descriptor.ts";
import { verified } from "../content/digest.ts";
import { type BaseLayers, placeBaseLayer } from "./base-layer.ts";
import { type ReadTarEntry, readTar } from "./tar-reader.ts";
import { guardLinks, placeInside, refused } from "./unpack-links.ts";

/** Limits hold for all that is unpacked by one call: an image has many layers and one limit. */
export interface UnpackOptions extends Partial<ArchiveLimits> {
  /** Where lowest layers are kept unpacked, to be linked into the images that stand on them. */
  readonly baseLayers?: BaseLayers | undefined;
  readonly signal?: AbortSignal | undefined;
}

const WHITEOUT = ".wh.";
const OPAQUE = ".wh..wh..opq";

export async function unpackLayer(
  stream: AsyncIterable<Uint8Array>,
  mediaType: string,
  directory: string,
  options: UnpackOptions = {},
): Promise<void> {
  await guardLinks(directory, (links) =>
    unpackOnto(stream, mediaType, directory, { ...options, links }),
  );
}

/** Unpacks an image's layers one over the other; gives back its manifest and configuration. */
export async function unpackImage(
  store: ContentStore,
  repository: string,
  digest: Digest,
  directory: string,
  options: UnpackOptions = {},
): Promise<Image> {
  const image = await readImage(store, repository, digest);
  const budget = createArchiveBudget(limitsOf(options));
  await guardLinks(directory, async (links) => {
    for (const [index, layer] of image.manifest.layers.entries()) {
      const open = () => verified(store.readBlob(repository, layer.digest, options), layer);
      const unpack = (into: string, made: Set<string>) =>
        unpackOnto(open(), layer.mediaType, into, { ...options, budget, links: made });
      if (index > 0 || options.baseLayers === undefined) {
        await unpack(directory, links);
        continue;
      }
      const base = await placeBaseLayer(options.baseLayers, layer, directory, (draft) =>
        unpack(draft, new Set()),
      );
      for (const path of base) links.add(path);
    }
  });
  return image;
}

/** Unpacks what `packFiles` made, or the layers of any artifact that has archives for layers. */
export async function unpackFiles(
  store: ContentStore,
  repository: string,
  digest: Digest,
  directory: string,
  options: UnpackOptions = {},
): Promise<void> {
  const { bytes, mediaType } = await store.readManifest(repository, digest);
  const parsed = parseManifest(bytes, mediaType);
  if (parsed.kind === "index") throw new Failure("invalid", `${digest} is an index, not files`);
  const budget = createArchiveBudget(limitsOf(options));
  await guardLinks(directory, async (links) => {
    for (const layer of parsed.manifest.layers) {
      const stream = verified(store.readBlob(repository, layer.digest, options), layer);
      await unpackOnto(stream, layer.mediaType, directory, { ...options, budget, links });
    }
  });
}

export interface UnpackOnto extends UnpackOptions {
  readonly links: Set<string>;
  /** What is left for this archive, where it is one of several. */
  readonly budget?: ArchiveBudget;
}

/** Adds every link it makes to `links`, for whoever guards them. */
export async function unpackOnto(
  stream: AsyncIterable<Uint8Array>,
  mediaType: string,
  directory: string,
  options: UnpackOnto,
): Promise<void> {
  const { signal, links, budget = createArchiveBudget(limitsOf(options)) } = options;
  await mkdir(directory, { recursive: true });
  const made = new Set<string>();
  for await (const entry of readTar(decompress(stream, mediaType))) {
    signal?.throwIfAborted();
    // Counted before anything of it is read or made.
    budget.take(entry);
    const named = cleanPath(entry.path);
    if (named === "." && entry.type === "directory") continue;
    if (named === ".") throw refused(entry.path, "it is the directory itself");
    try {
      await placeEntry(directory, named, entry, { made, links });
    } catch (reason) {
      throw entryFailure(entry.path, reason);
    }
  }
}

interface Placed {
  readonly made: Set<string>;
  readonly links: Set<string>;
}

async function placeEntry(
  directory: string,
  named: string,
  entry: ReadTarEntry,
  { made, links }: Placed,
): Promise<void> {
  const path = await placeInside(directory, named);
  if (posix.basename(path).startsWith(WHITEOUT)) return whiteOut(directory, path, made);
  if (entry.type === "symlink") links.add(path);
  await place(directory, path, entry);
  // Every directory on the way counts as this layer's, so its own whiteouts spare it.
  for (let at = path; at !== "."; at = posix.dirname(at)) made.add(at);
}

/** What the file system says of a name that no tree can have is a word about the archive. */
const NAME_ERRORS = ["ENAMETOOLONG", "ENOTDIR", "EEXIST", "EISDIR", "ELOOP", "EINVAL", "EILSEQ"];

function entryFailure(path: string, reason: unknown): unknown {
  const { code } = reason as NodeJS.ErrnoException;
  if (reason instanceof Failure || !NAME_ERRORS.includes(code ?? "")) return reason;
  return refused(path, `no such name can be made here (${code})`);
}

function limitsOf(options: Partial<ArchiveLimits>): Partial<ArchiveLimits> {
  const { bytesMax, entriesMax, nameBytesMax, namesBytesMax, depthMax } = options;
  const given = { bytesMax, entriesMax, nameBytesMax, namesBytesMax, depthMax };
  return Object.fromEntries(Object.entries(given).filter(([, limit]) => limit !== undefined));
}

async function place(directory: string, path: string, entry: ReadTarEntry): Promise<void> {
  const file = join(directory, path);
  await mkdir(dirname(file), { recursive: true });
  const there = await unlessAbsent(lstat(file));
  if (there && !(there.isDirectory() && entry.type === "directory")) {
    await rm(file, { recursive: true, force: true });
  }
  const mode = entry.mode & 0o777;
  switch (entry.type) {
    case "directory":
      if (!there?.isDirectory()) await mkdir(file);
      await chmod(file, mode | 0o700);
      return;
    case "file":
      await pipeline(entry.content, createWriteStream(file, { flags: "wx", mode: 0o600 }));
      await chmod(file, mode);
      return;
    case "symlink":
      await symlink(linkTarget(path, entry.target), file);
      return;
    case "hardlink": {
      const target = await placeInside(directory, cleanPath(entry.target));
      const found = await unlessAbsent(lstat(join(directory, target)));
      if (!found?.isFile())
        throw refused(path, `it links to ${entry.target}, which is no file here`);
      await link(join(directory, target), file);
      return;
    }
    case "other":
      throw refused(path, "it is a device or another special file");
  }
}

/** A whiteout removes what lower layers brought, never what this one did. */
async function whiteOut(directory: string, path: string, made: ReadonlySet<string>) {
  const parent = posix.dirname(path);
  const name = posix.basename(path);
  const hidden =
    name === OPAQUE
      ? ((await unlessAbsent(readdir(join(directory, parent)))) ?? [])
      : [name.slice(WHITEOUT.length)];
  for (const each of hidden) {
    if (each === "" || each === "." || each === "..") throw refused(path, "it hides nothing");
    const victim = posix.join(parent, each);
    if (!made.has(victim)) await rm(join(directory, victim), { recursive: true, force: true });
  }
}

function cleanPath(path: string): string {
  const isBad = path === "" || path.startsWith("/") || path.includes("\0");
  if (isBad || path.split("/").includes("..")) throw refused(path, "it leads out of the directory");
  return posix.normalize(path).replace(/\/+$/, "");
}

/** In an image an absolute link means the image's root, so it is made relative to that. */
function linkTarget(path: string, target: string): string {
  if (target === "" || target.includes("\0")) throw refused(path, "it links to nothing");
  if (!target.startsWith("/")) return target;
  return posix.relative(posix.join("/", posix.dirname(path)), posix.normalize(target)) || ".";
}

function decompress(
  stream: AsyncIterable<Uint8Array>,
  mediaType: string,
): AsyncIterable<Uint8Array> {
  if (/[+.]gzip$/.test(mediaType)) return through(stream, createGunzip());
  if (/[+.]zstd$/.test(mediaType)) return through(stream, createZstdDecompress());
  if (/[+.]tar$/.test(mediaType)) return stream;
  throw new Failure("invalid", `${mediaType} is not an archive this program can unpack`);
}

async function* through(
  stream: AsyncIterable<Uint8Array>,
  transform: Transform,
): AsyncIterable<Uint8Array> {
  const ended = pipeline(Readable.from(stream), transform);
  // Read by the loop below as an error of the stream; kept here for the one after the last byte.
  ended.catch(() => undefined);
  try {
    for await (const chunk of transform) yield chunk as Uint8Array;
    await ended;
  } catch (cause) {
    if (cause instanceof Failure || !isCompressionError(cause)) throw cause;
    throw new Failure("invalid", "the archive is not compressed as it says, or it is damaged", {
      cause,
    });
  }
}

function isCompressionError(reason: unknown): boolean {
  return /^(Z_|ZSTD_)/.test((reason as NodeJS.ErrnoException).code ?? "");
}
