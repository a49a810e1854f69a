// Puts layers on a disk. An archive is input like any other: it may not write, link or point outside
// the directory it is unpacked into, and brings no devices and no set-user-id programs.

import { createWriteStream } from "node:fs";
import { chmod, link, lstat, mkdir, readdir, readlink, rm, symlink } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import { Readable, type Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { type Digest, Failure } from "@exclave/core";
import { placeBaseLayer } from "./base-layer.ts";
import { unlessAbsent } from "./blob-files.ts";
import { type ContentStore, type Image, readImage } from "./content-store.ts";
import { parseManifest } from "./descriptor.ts";
import { verified } from "./digest.ts";
import { type ReadTarEntry, readTar } from "./tar-reader.ts";

export interface UnpackOptions {
  /** Of what is written, not of what is read: a small archive can be a large tree. */
  readonly bytesMax?: number;
  /** Where lowest layers are kept unpacked, to be linked into the images that stand on them. */
  readonly baseLayers?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

const BYTES_MAX = 16 * 1024 ** 3;
const LINKS_MAX = 40;
const WHITEOUT = ".wh.";
const OPAQUE = ".wh..wh..opq";

export async function unpackLayer(
  stream: AsyncIterable<Uint8Array>,
  mediaType: string,
  directory: string,
  options: UnpackOptions = {},
): Promise<void> {
  const links = await unpackOnto(stream, mediaType, directory, options);
  await checkLinks(directory, links);
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
  const links = new Set<string>();
  for (const [index, layer] of image.manifest.layers.entries()) {
    const unpack = (into: string): Promise<Iterable<string>> =>
      unpackOnto(
        verified(store.readBlob(repository, layer.digest, options), layer),
        layer.mediaType,
        into,
        options,
      );
    const made =
      index === 0 && options.baseLayers !== undefined
        ? await placeBaseLayer(options.baseLayers, layer, directory, unpack)
        : await unpack(directory);
    for (const path of made) links.add(path);
  }
  await checkLinks(directory, links);
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
  for (const layer of parsed.manifest.layers) {
    const stream = verified(store.readBlob(repository, layer.digest, options), layer);
    await unpackLayer(stream, layer.mediaType, directory, options);
  }
}

async function unpackOnto(
  stream: AsyncIterable<Uint8Array>,
  mediaType: string,
  directory: string,
  { bytesMax = BYTES_MAX, signal }: UnpackOptions,
): Promise<Set<string>> {
  await mkdir(directory, { recursive: true });
  const made = new Set<string>();
  const links = new Set<string>();
  let bytes = 0;
  for await (const entry of readTar(decompress(stream, mediaType))) {
    signal?.throwIfAborted();
    const path = cleanPath(entry.path);
    if (path === ".") continue;
    bytes += entry.size;
    if (bytes > bytesMax)
      throw new Failure("too_large", `the archive unpacks to over ${bytesMax} bytes`);
    await checkParents(directory, path);

    const name = posix.basename(path);
    if (name.startsWith(WHITEOUT)) {
      await whiteOut(directory, path, made);
      continue;
    }
    await place(directory, path, entry);
    // Every directory on the way counts as this layer's, so its own whiteouts spare it.
    for (let at = path; at !== "."; at = posix.dirname(at)) made.add(at);
    if (entry.type === "symlink") links.add(path);
  }
  return links;
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
      const target = cleanPath(entry.target);
      await checkParents(directory, target);
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

/** Whatever is written to a path goes through its parents, which may be links by now. */
async function checkParents(directory: string, path: string): Promise<void> {
  await resolveInside(directory, posix.dirname(path), path);
}

/** Once everything is in place, no link may lead out, whatever other links it goes through. */
async function checkLinks(directory: string, links: ReadonlySet<string>): Promise<void> {
  for (const path of links) {
    try {
      await resolveInside(directory, path, path);
    } catch (reason) {
      await rm(join(directory, path), { force: true });
      throw reason;
    }
  }
}

/** Follows a path as the system would, and fails where it leaves the directory. */
async function resolveInside(directory: string, path: string, entry: string): Promise<void> {
  const waiting = path.split("/").reverse();
  const at: string[] = [];
  let followed = 0;
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (name === "" || name === ".") continue;
    if (name === "..") {
      if (at.pop() === undefined) throw refused(entry, "it leads out of the directory");
      continue;
    }
    const here = join(directory, ...at, name);
    const found = await unlessAbsent(lstat(here));
    if (!found?.isSymbolicLink()) {
      at.push(name);
      continue;
    }
    if (++followed > LINKS_MAX) throw refused(entry, "its links go in circles");
    const target = await readlink(here);
    if (target.startsWith("/")) throw refused(entry, "it leads out of the directory");
    waiting.push(...target.split("/").reverse());
  }
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

function refused(path: string, because: string): Failure {
  return new Failure(
    "invalid",
    `the archive's entry ${JSON.stringify(path)} is refused: ${because}`,
  );
}
