// Makes a layer out of files on disk: a tar archive, compressed, that is the same for the same files
// wherever and whenever it is made. It is written to a temporary file first, for its digest and
// size must be known before it can be sent anywhere; nothing is held in memory.

import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { lstat, mkdtemp, readdir, readlink, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { type Digest, Failure } from "@exclave/core";
import { diskFailure } from "@exclave/machine";
import { type Descriptor, MEDIA_TYPES } from "../content/descriptor.ts";
import { type TarEntry, writeTar } from "./tar-writer.ts";

/** A whole directory, or files from here and there with their places in the layer. */
export type LayerSource =
  | { readonly directory: string; readonly prefix?: string }
  | { readonly files: readonly LayerFile[] };

export type LayerFile = {
  /** Where it lies in the layer, without a leading slash. */
  readonly path: string;
} & (
  | {
      readonly from: string;
      /** Taken from the file when not given. */
      readonly executable?: boolean;
    }
  | { readonly text: string }
  /** A symbolic link. */
  | { readonly target: string }
);

export interface Layer extends AsyncDisposable {
  readonly descriptor: Descriptor;
  /** The digest of the archive before it was compressed. */
  readonly diffId: Digest;
  readonly open: (from: number) => AsyncIterable<Uint8Array>;
}

export interface LayerOptions {
  readonly mediaType?: string;
  readonly compressionLevel?: number;
  readonly signal?: AbortSignal | undefined;
}

export async function createLayer(source: LayerSource, options: LayerOptions = {}): Promise<Layer> {
  const { mediaType = MEDIA_TYPES.layerGzip, compressionLevel = 6, signal } = options;
  const entries =
    "files" in source ? await fileEntries(source.files) : await directoryEntries(source, signal);
  const temporary = await mkdtemp(join(tmpdir(), "exclave-layer-"));
  const remove = () => rm(temporary, { recursive: true, force: true });
  const file = join(temporary, "layer");
  const plain = createHash("sha256");
  const packed = createHash("sha256");
  try {
    await pipeline(
      writeTar(entries),
      (chunks: AsyncIterable<Uint8Array>) => hashing(chunks, plain),
      createGzip({ level: compressionLevel }),
      (chunks: AsyncIterable<Uint8Array>) => hashing(withPlainHeader(chunks), packed),
      createWriteStream(file),
      signal ? { signal } : {},
    );
    const { size } = await stat(file);
    const digest = `sha256:${packed.digest("hex")}` as Digest;
    return {
      descriptor: { mediaType, digest, size },
      diffId: `sha256:${plain.digest("hex")}` as Digest,
      open: (from) => createReadStream(file, { start: from, highWaterMark: 256 * 1024 }),
      [Symbol.asyncDispose]: remove,
    };
  } catch (reason) {
    await remove();
    signal?.throwIfAborted();
    throw diskFailure(reason);
  }
}

async function* hashing(chunks: AsyncIterable<Uint8Array>, hash: ReturnType<typeof createHash>) {
  for await (const chunk of chunks) {
    hash.update(chunk);
    yield chunk;
  }
}

/** The tenth byte of gzip names the system it was made on; 255 is "unknown", the same everywhere. */
async function* withPlainHeader(chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  let at = 0;
  for await (const chunk of chunks) {
    if (at <= 9 && 9 < at + chunk.length) chunk[9 - at] = 255;
    at += chunk.length;
    yield chunk;
  }
}

async function directoryEntries(
  { directory, prefix = "" }: Extract<LayerSource, { directory: string }>,
  signal: AbortSignal | undefined,
) {
  const entries: TarEntry[] = [];
  const root = prefix.replace(/^\/+|\/+$/g, "");
  if (root !== "") entries.push(...parentsOf(`${root}/x`));
  await visit(directory, root);
  return inOrder(entries);

  async function visit(place: string, path: string): Promise<void> {
    for (const name of await readdir(place)) {
      signal?.throwIfAborted();
      const inside = path === "" ? name : `${path}/${name}`;
      const entry = await entryFor(join(place, name), inside);
      entries.push(entry);
      if (entry.type === "directory") await visit(join(place, name), inside);
    }
  }
}

async function fileEntries(files: readonly LayerFile[]): Promise<TarEntry[]> {
  const entries = new Map<string, TarEntry>();
  for (const file of files) {
    const path = posix.normalize(file.path);
    if (path.startsWith("/") || path.startsWith("..")) {
      throw new Failure("invalid", `${file.path} is not a place inside a layer`);
    }
    for (const parent of parentsOf(path)) entries.set(parent.path, parent);
    entries.set(path, await fileEntry(file, path));
  }
  return inOrder([...entries.values()]);
}

async function fileEntry(file: LayerFile, path: string): Promise<TarEntry> {
  if ("target" in file) return { path, mode: 0o777, type: "symlink", target: file.target };
  if ("text" in file) {
    const bytes = Buffer.from(file.text);
    const open = async function* () {
      yield bytes;
    };
    return { path, mode: fileMode(false), type: "file", size: bytes.length, open };
  }
  const { from, executable } = file;
  const entry = await entryFor(from, path, await stat(from));
  if (entry.type === "directory") throw new Failure("invalid", `${from} is a directory`);
  return executable === undefined ? entry : { ...entry, mode: fileMode(executable) };
}

async function entryFor(file: string, path: string, known?: Awaited<ReturnType<typeof lstat>>) {
  const found = known ?? (await lstat(file));
  const mode = fileMode((Number(found.mode) & 0o100) !== 0);
  if (found.isDirectory()) return { path, mode: 0o755, type: "directory" } satisfies TarEntry;
  if (found.isSymbolicLink()) {
    const target = await readlink(file);
    return { path, mode: 0o777, type: "symlink", target } satisfies TarEntry;
  }
  if (!found.isFile()) throw new Failure("invalid", `${file} is neither a file nor a directory`);
  const open = () => createReadStream(file, { highWaterMark: 256 * 1024 });
  return { path, mode, type: "file", size: Number(found.size), open } satisfies TarEntry;
}

function fileMode(executable: boolean): number {
  return executable ? 0o755 : 0o644;
}

function parentsOf(path: string): TarEntry[] {
  const names = path.split("/").slice(0, -1);
  return names.map((_, index) => ({
    path: names.slice(0, index + 1).join("/"),
    mode: 0o755,
    type: "directory",
  }));
}

/** By bytes, not by the language of whoever packs. A directory comes before what is in it. */
function inOrder(entries: TarEntry[]): TarEntry[] {
  return entries.sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
}
