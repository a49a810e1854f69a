// Reads a zip archive that lies in a file. An archive is input like any other: a path that leads out
// of the directory, a link, an encrypted entry or a wrong checksum refuses the whole of it.

import { createReadStream, createWriteStream } from "node:fs";
import { chmod, type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { crc32, createInflateRaw } from "node:zlib";
import { ARCHIVE_LIMITS, type ArchiveLimits, createArchiveBudget, Failure } from "@exclave/core";
import { CENTRAL_HEADER, END_RECORD, LOCAL_HEADER, SIZE_MAX } from "./zip-records.ts";

export interface ZipEntry {
  readonly path: string;
  readonly isDirectory: boolean;
  readonly mode: number;
  readonly size: number;
  readonly packedSize: number;
  readonly crc: number;
  readonly isDeflated: boolean;
  readonly offset: number;
}

export interface UnzipOptions extends Partial<ArchiveLimits> {
  readonly signal?: AbortSignal | undefined;
}

/** Of the list of files, which is read whole. */
const CENTRAL_BYTES_MAX = 32 * 1024 ** 2;
const COMMENT_MAX = 0xffff;

export async function unzip(
  file: string,
  directory: string,
  { signal, ...limits }: UnzipOptions = {},
): Promise<void> {
  const entries = await readZip(file);
  const budget = createArchiveBudget({ ...ARCHIVE_LIMITS, ...limits });
  for (const entry of entries) budget.take(entry);
  await mkdir(directory, { recursive: true });
  for (const entry of entries) {
    signal?.throwIfAborted();
    const target = join(directory, entry.path);
    try {
      if (entry.isDirectory) await mkdir(target, { recursive: true });
      else await unzipEntry(file, entry, target, signal);
    } catch (reason) {
      throw entryFailure(entry, reason);
    }
  }
}

/** What the archive's own list says; nothing of the content has been looked at. */
export async function readZip(file: string): Promise<ZipEntry[]> {
  const handle = await open(file, "r");
  try {
    const { size } = await handle.stat();
    const { entries, centralSize, centralOffset } = await readEnd(handle, size);
    if (centralOffset + centralSize > size) throw damaged("its list of files is cut off");
    if (centralSize > CENTRAL_BYTES_MAX) {
      throw new Failure("too_large", `the archive's list is over ${CENTRAL_BYTES_MAX} bytes`);
    }
    const central = await readAt(handle, centralOffset, centralSize);
    return parseCentral(central, entries);
  } finally {
    await handle.close();
  }
}

async function readEnd(handle: FileHandle, size: number) {
  const from = Math.max(0, size - END_RECORD.size - COMMENT_MAX);
  const tail = await readAt(handle, from, size - from);
  const signature = Buffer.alloc(4);
  signature.writeUInt32LE(END_RECORD.signature);
  const at = tail.lastIndexOf(signature);
  if (at < 0 || at + END_RECORD.size > tail.length) throw damaged("it is no zip archive");
  const entries = tail.readUInt16LE(at + END_RECORD.entries);
  const centralSize = tail.readUInt32LE(at + END_RECORD.centralSize);
  const centralOffset = tail.readUInt32LE(at + END_RECORD.centralOffset);
  if (entries === 0xffff || centralOffset > SIZE_MAX) {
    throw new Failure("too_large", "zip archives of more than 4 GiB are not read");
  }
  return { entries, centralSize, centralOffset };
}

function parseCentral(central: Buffer, count: number): ZipEntry[] {
  const entries: ZipEntry[] = [];
  const seen = new Set<string>();
  let at = 0;
  for (let index = 0; index < count; index++) {
    if (at + CENTRAL_HEADER.size > central.length) throw damaged("its list of files is cut off");
    const record = central.subarray(at);
    if (record.readUInt32LE(0) !== CENTRAL_HEADER.signature) throw damaged("its list is broken");
    const nameLength = record.readUInt16LE(CENTRAL_HEADER.nameLength);
    const next =
      CENTRAL_HEADER.size +
      nameLength +
      record.readUInt16LE(CENTRAL_HEADER.extraLength) +
      record.readUInt16LE(CENTRAL_HEADER.commentLength);
    if (next > record.length) throw damaged("its list of files is cut off");
    const entry = parseEntry(record, nameLength);
    if (!entry.isDirectory && seen.has(entry.path)) throw refused(entry.path, "it is there twice");
    seen.add(entry.path);
    entries.push(entry);
    at += next;
  }
  return entries;
}

function parseEntry(record: Buffer, nameLength: number): ZipEntry {
  const name = record.toString("utf8", CENTRAL_HEADER.size, CENTRAL_HEADER.size + nameLength);
  const isDirectory = name.endsWith("/");
  const path = cleanPath(name);
  const attributes = record.readUInt32LE(CENTRAL_HEADER.attributes);
  const unixMode = attributes >>> 16;
  const kind = unixMode & 0o170000;
  if (kind !== 0 && kind !== 0o100000 && kind !== 0o040000) {
    throw refused(name, "it is a link or another special file");
  }
  if ((record.readUInt16LE(CENTRAL_HEADER.flags) & 1) !== 0) {
    throw refused(name, "it is encrypted");
  }
  const method = record.readUInt16LE(CENTRAL_HEADER.method);
  if (method !== 0 && method !== 8) throw refused(name, "it is compressed in an unknown way");
  return {
    path,
    isDirectory,
    mode: (unixMode & 0o100) === 0 ? 0o644 : 0o755,
    size: record.readUInt32LE(CENTRAL_HEADER.plainSize),
    packedSize: record.readUInt32LE(CENTRAL_HEADER.packedSize),
    crc: record.readUInt32LE(CENTRAL_HEADER.crc),
    isDeflated: method === 8,
    offset: record.readUInt32LE(CENTRAL_HEADER.offset),
  };
}

async function unzipEntry(
  file: string,
  entry: ZipEntry,
  target: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const packed = await openPacked(file, entry);
  const plain = entry.isDeflated ? createInflateRaw() : new PassThrough();
  const check = (chunks: AsyncIterable<Uint8Array>) => checked(chunks, entry);
  const write = createWriteStream(target, { flags: "wx", mode: 0o600 });
  await pipeline(packed, plain, check, write, signal ? { signal } : {});
  await chmod(target, entry.mode);
}

/** What the system says of content or a name that cannot be is a word about the archive. */
const ENTRY_ERRORS = ["EEXIST", "ENOTDIR", "EISDIR", "ENAMETOOLONG", "EINVAL", "EILSEQ"];

function entryFailure({ path }: ZipEntry, cause: unknown): unknown {
  const code = (cause as NodeJS.ErrnoException).code ?? "";
  if (cause instanceof Failure || !(code.startsWith("Z_") || ENTRY_ERRORS.includes(code))) {
    return cause;
  }
  return new Failure("invalid", `the archive's entry ${path} cannot be unpacked`, { cause });
}

/** The local header repeats the name and may have other extras, so its own lengths count. */
async function openPacked(file: string, { offset, packedSize, path }: ZipEntry) {
  const handle = await open(file, "r");
  try {
    const header = await readAt(handle, offset, LOCAL_HEADER.size);
    if (header.length < LOCAL_HEADER.size || header.readUInt32LE(0) !== LOCAL_HEADER.signature) {
      throw refused(path, "it is not where the list says");
    }
    const start = offset + LOCAL_HEADER.size + header.readUInt16LE(26) + header.readUInt16LE(28);
    // Nothing to read, which a range cannot say.
    if (packedSize === 0) return Readable.from([]);
    const end = start + packedSize - 1;
    return createReadStream(file, { start, end, highWaterMark: 256 * 1024 });
  } finally {
    await handle.close();
  }
}

async function* checked(
  chunks: AsyncIterable<Uint8Array>,
  { path, size, crc }: ZipEntry,
): AsyncIterable<Uint8Array> {
  let seen = 0;
  let found = 0;
  for await (const chunk of chunks) {
    seen += chunk.length;
    if (seen > size) throw refused(path, "it is longer than it says");
    found = crc32(chunk, found);
    yield chunk;
  }
  if (seen !== size || found !== crc) throw refused(path, "its content is not what it says");
}

function cleanPath(name: string): string {
  const isBad = name === "" || name.startsWith("/") || name.includes("\0") || name.includes("\\");
  if (isBad || name.split("/").includes("..")) throw refused(name, "it leads out of the directory");
  return posix.normalize(name).replace(/\/+$/, "");
}

async function readAt(handle: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, position);
  return buffer.subarray(0, bytesRead);
}

function damaged(because: string): Failure {
  return new Failure("invalid", `the archive cannot be read: ${because}`);
}

function refused(path: string, because: string): Failure {
  return new Failure(
    "invalid",
    `the archive's entry ${JSON.stringify(path)} is refused: ${because}`,
  );
}
