// Unpacks a zip archive that lies in a file. An archive is input like any other: a path that leads out
// of the directory, a link, an encrypted entry or a wrong checksum refuses the whole of it. yauzl reads
// the records; names, kinds, sizes and checksums are judged here.

import { createWriteStream } from "node:fs";
import { chmod, mkdir, open } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import { PassThrough, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { crc32, createInflateRaw } from "node:zlib";
import {
  ARCHIVE_LIMITS,
  type ArchiveLimits,
  asFailure,
  createArchiveBudget,
  Failure,
} from "@exclave/core";
import yauzl, { type Entry, type ZipFile } from "yauzl";

export interface ZipEntry {
  readonly path: string;
  readonly isDirectory: boolean;
  readonly mode: number;
  readonly size: number;
  readonly crc: number;
  readonly isDeflated: boolean;
}

export interface UnzipOptions extends Partial<ArchiveLimits> {
  readonly signal?: AbortSignal | undefined;
}

export async function unzip(
  file: string,
  directory: string,
  { signal, ...limits }: UnzipOptions = {},
): Promise<void> {
  const zip = await openZip(file);
  try {
    const entries = await listEntries(zip, { ...ARCHIVE_LIMITS, ...limits });
    await mkdir(directory, { recursive: true });
    for (const { entry, record } of entries) {
      signal?.throwIfAborted();
      const target = join(directory, entry.path);
      try {
        if (entry.isDirectory) await mkdir(target, { recursive: true });
        else await unzipEntry(await packedContent(zip, record), entry, target, signal);
      } catch (reason) {
        throw entryFailure(entry, reason);
      }
    }
  } finally {
    zip.close();
  }
}

/** What the archive's own list says; nothing of the content has been looked at. */
export async function readZip(file: string): Promise<ZipEntry[]> {
  const zip = await openZip(file);
  try {
    return (await listEntries(zip, ARCHIVE_LIMITS)).map(({ entry }) => entry);
  } finally {
    zip.close();
  }
}

async function openZip(file: string): Promise<ZipFile> {
  await refuseZip64(file);
  try {
    // Names stay bytes: what yauzl would refuse or change in them is refused below, by one rule.
    const zip = await yauzl.openPromise(file, { autoClose: false, decodeStrings: false });
    // Closing the file may fail, after all that matters has been read.
    zip.on("error", () => undefined);
    return zip;
  } catch (reason) {
    throw damaged(reason);
  }
}

const END_RECORD = { signature: Buffer.from("PK\x05\x06", "latin1"), size: 22, commentMax: 0xffff };
const ZIP64_LOCATOR = { signature: Buffer.from("PK\x06\x07", "latin1"), size: 20 };

/**
 * The 64-bit extension is for archives over 4 GiB, which no limit here lets through. Its offsets reach
 * beyond what Node takes as a position, and yauzl would throw where nobody can catch it.
 */
async function refuseZip64(file: string): Promise<void> {
  const handle = await open(file, "r");
  try {
    const { size } = await handle.stat();
    const from = Math.max(0, size - END_RECORD.size - END_RECORD.commentMax - ZIP64_LOCATOR.size);
    const bytes = Buffer.alloc(size - from);
    await handle.read(bytes, 0, bytes.length, from);
    const end = bytes.lastIndexOf(
      END_RECORD.signature,
      Math.max(0, bytes.length - END_RECORD.size),
    );
    const locator = bytes.subarray(Math.max(0, end - ZIP64_LOCATOR.size), Math.max(0, end));
    if (locator.subarray(0, 4).equals(ZIP64_LOCATOR.signature)) {
      throw new Failure("too_large", "zip archives of more than 4 GiB are not read");
    }
  } finally {
    await handle.close();
  }
}

interface Listed {
  readonly entry: ZipEntry;
  readonly record: Entry;
}

/** Of the list of files, which is held whole. */
const LIST_BYTES_MAX = 32 * 1024 ** 2;

/** All of it is judged, and counted against the limits, before the first file is written. */
async function listEntries(zip: ZipFile, limits: ArchiveLimits): Promise<Listed[]> {
  const budget = createArchiveBudget(limits);
  const listed: Listed[] = [];
  const seen = new Set<string>();
  let listBytes = 0;
  try {
    for await (const record of zip.eachEntry()) {
      listBytes += record.fileNameLength + record.extraFieldLength + record.fileCommentLength;
      if (listBytes > LIST_BYTES_MAX) {
        throw new Failure("too_large", `the archive's list is over ${LIST_BYTES_MAX} bytes`);
      }
      const entry = parseEntry(record);
      budget.take(entry);
      if (!entry.isDirectory && seen.has(entry.path))
        throw refused(entry.path, "it is there twice");
      seen.add(entry.path);
      listed.push({ entry, record });
    }
  } catch (reason) {
    throw damaged(reason);
  }
  return listed;
}

function parseEntry(record: Entry): ZipEntry {
  const name = record.fileNameRaw.toString("utf8");
  const unixMode = record.externalFileAttributes >>> 16;
  const kind = unixMode & 0o170000;
  const path = cleanPath(name);
  if (kind !== 0 && kind !== 0o100000 && kind !== 0o040000) {
    throw refused(name, "it is a link or another special file");
  }
  if (record.isEncrypted()) throw refused(name, "it is encrypted");
  if (!record.canDecodeFileData()) throw refused(name, "it is compressed in an unknown way");
  return {
    path,
    isDirectory: name.endsWith("/"),
    mode: (unixMode & 0o100) === 0 ? 0o644 : 0o755,
    size: record.uncompressedSize,
    crc: record.crc32,
    isDeflated: record.compressionMethod === 8,
  };
}

/** As it lies in the archive: yauzl's own unpacking reports damage also after its stream has ended. */
async function packedContent(zip: ZipFile, record: Entry): Promise<Readable> {
  try {
    return await zip.openReadStreamPromise(record, { decodeFileData: false });
  } catch (reason) {
    throw damaged(reason);
  }
}

async function unzipEntry(
  packed: Readable,
  entry: ZipEntry,
  target: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const check = (chunks: AsyncIterable<Uint8Array>) => checked(chunks, entry);
  const write = createWriteStream(target, { flags: "wx", mode: 0o600 });
  const plain = entry.isDeflated ? createInflateRaw() : new PassThrough();
  await pipeline(packed, plain, check, write, signal ? { signal } : {});
  await chmod(target, entry.mode);
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

/** What the system says of content or a name that cannot be is a word about the archive. */
const ENTRY_ERRORS = ["EEXIST", "ENOTDIR", "EISDIR", "ENAMETOOLONG", "EINVAL", "EILSEQ"];

function entryFailure({ path }: ZipEntry, cause: unknown): unknown {
  if (cause instanceof Failure) return cause;
  const { code = "", name } = cause as NodeJS.ErrnoException;
  if (name === "AbortError" || (isOfSystem(cause) && !ENTRY_ERRORS.includes(code))) return cause;
  return new Failure("invalid", `the archive's entry ${path} cannot be unpacked`, { cause });
}

function damaged(reason: unknown): unknown {
  if (reason instanceof Failure || isOfSystem(reason)) return reason;
  const because = asFailure(reason).message;
  return new Failure("invalid", `the archive cannot be read: ${because}`, { cause: reason });
}

/** Of the disk and not of the archive: yauzl's errors have no code, Node's and zlib's begin like this. */
function isOfSystem(reason: unknown): boolean {
  const { code } = reason as NodeJS.ErrnoException;
  return code !== undefined && !/^(ERR_|Z_)/.test(code);
}

function refused(path: string, because: string): Failure {
  return new Failure(
    "invalid",
    `the archive's entry ${JSON.stringify(path)} is refused: ${because}`,
  );
}
