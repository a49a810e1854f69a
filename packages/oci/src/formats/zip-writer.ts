// A directory as a zip archive, the same bytes for the same files: no times, no owners, files in the
// order of their names. For what OpenTofu reads, which knows zip and nothing else. Written to a
// temporary file, since its digest must be known before it can be sent anywhere.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, mkdtemp, open, readdir, realpath, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, sep } from "node:path";
import { Readable } from "node:stream";
import { crc32, createDeflateRaw } from "node:zlib";
import { type Digest, Failure } from "@exclave/core";
import { writeAll } from "../content/blob-files.ts";
import type { Descriptor } from "../content/descriptor.ts";
import {
  CENTRAL_HEADER,
  END_RECORD,
  ENTRIES_MAX,
  FIXED_DATE,
  LOCAL_HEADER,
  SIZE_MAX,
  UTF8_NAMES,
} from "./zip-records.ts";

/** A blob that lies in a file until it has been sent. */
export interface PackedFile extends AsyncDisposable {
  readonly descriptor: Descriptor;
  readonly open: (from: number) => AsyncIterable<Uint8Array>;
}

export interface ZipOptions {
  readonly mediaType: string;
  readonly compressionLevel?: number;
}

export async function createZip(directory: string, options: ZipOptions): Promise<PackedFile> {
  const files = await filesOf(directory);
  if (files.length > ENTRIES_MAX) {
    throw new Failure("too_large", `${directory} holds more than ${ENTRIES_MAX} files`);
  }
  const temporary = await mkdtemp(join(tmpdir(), "exclave-zip-"));
  const remove = () => rm(temporary, { recursive: true, force: true });
  try {
    const file = join(temporary, "archive.zip");
    await writeZip(file, files, options.compressionLevel ?? 6);
    const { descriptor, open: openFile } = await describeFile(file, options.mediaType);
    return { descriptor, open: openFile, [Symbol.asyncDispose]: remove };
  } catch (reason) {
    await remove();
    throw reason;
  }
}

/** A file that is a blob already, such as an archive somebody else made. */
export async function describeFile(file: string, mediaType: string): Promise<PackedFile> {
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of createReadStream(file, { highWaterMark: READ_BYTES })) {
    hash.update(chunk as Buffer);
    size += (chunk as Buffer).length;
  }
  const digest = `sha256:${hash.digest("hex")}` as Digest;
  return {
    descriptor: { mediaType, digest, size },
    open: (from) => createReadStream(file, { start: from, highWaterMark: READ_BYTES }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

const READ_BYTES = 256 * 1024;
const DIRECTORIES_DEEP_MAX = 64;

interface SourceFile {
  readonly path: string;
  readonly from: string;
  readonly mode: number;
}

/**
 * Links are followed, because zip readers make files of them; one that leads out of the directory
 * is refused, as it would bring something nobody meant to send.
 */
async function filesOf(directory: string): Promise<SourceFile[]> {
  const root = await realpath(directory);
  const files: SourceFile[] = [];
  await visit(root, "", 0);
  return files.sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));

  async function visit(place: string, prefix: string, depth: number): Promise<void> {
    if (depth > DIRECTORIES_DEEP_MAX) {
      throw new Failure("invalid", `${prefix} is too deep; do its links go in circles?`);
    }
    for (const name of await readdir(place)) {
      const path = prefix + name;
      const from = await realpath(join(place, name)).catch((cause) => {
        throw new Failure("invalid", `${path} links to nothing`, { cause });
      });
      const away = relative(root, from);
      if (away === ".." || away.startsWith(`..${sep}`)) {
        throw new Failure("invalid", `${path} links to a place outside the directory`);
      }
      const found = await stat(from);
      if (found.isDirectory()) await visit(from, `${path}/`, depth + 1);
      else if (found.isFile()) {
        files.push({ path, from, mode: (found.mode & 0o100) === 0 ? 0o644 : 0o755 });
      } else throw new Failure("invalid", `${path} is neither a file nor a directory`);
    }
  }
}

interface WrittenFile {
  readonly name: Buffer;
  readonly mode: number;
  readonly crc: number;
  readonly packedSize: number;
  readonly size: number;
  readonly offset: number;
}

async function writeZip(file: string, files: readonly SourceFile[], level: number): Promise<void> {
  const handle = await open(file, "wx");
  try {
    const written: WrittenFile[] = [];
    let offset = 0;
    for (const source of files) {
      const entry = await writeEntry(handle, source, offset, level);
      written.push(entry);
      offset += LOCAL_HEADER.size + entry.name.length + entry.packedSize;
    }
    const central = Buffer.concat(written.map(centralRecord));
    await writeAll(handle, central);
    await writeAll(handle, endRecord(written.length, central.length, offset));
  } finally {
    await handle.close();
  }
}

/** The header says how much follows, so it is written again once that is known. */
async function writeEntry(
  handle: FileHandle,
  { path, from, mode }: SourceFile,
  offset: number,
  level: number,
): Promise<WrittenFile> {
  const name = Buffer.from(path);
  let crc = 0;
  let size = 0;
  let packedSize = 0;
  await writeAll(handle, Buffer.concat([new Uint8Array(LOCAL_HEADER.size), name]));

  const plain = async function* () {
    for await (const chunk of createReadStream(from, { highWaterMark: READ_BYTES })) {
      crc = crc32(chunk as Buffer, crc);
      size += (chunk as Buffer).length;
      yield chunk as Buffer;
    }
  };
  const packed = Readable.from(plain()).compose(createDeflateRaw({ level }));
  for await (const chunk of packed) {
    packedSize += (chunk as Buffer).length;
    await writeAll(handle, chunk as Buffer);
  }
  if (Math.max(size, offset + packedSize) > SIZE_MAX) {
    throw new Failure("too_large", `${path} does not fit into a zip archive of 4 GiB`);
  }
  const entry = { name, mode, crc, packedSize, size, offset };
  await handle.write(localRecord(entry), 0, LOCAL_HEADER.size, offset);
  return entry;
}

function localRecord(entry: WrittenFile): Buffer {
  const bytes = Buffer.alloc(LOCAL_HEADER.size);
  bytes.writeUInt32LE(LOCAL_HEADER.signature, 0);
  writeCommon(bytes, 4, entry);
  return bytes;
}

function centralRecord(entry: WrittenFile): Buffer {
  const bytes = Buffer.alloc(CENTRAL_HEADER.size);
  bytes.writeUInt32LE(CENTRAL_HEADER.signature, 0);
  // Made on Unix, so that the mode counts.
  bytes.writeUInt16LE((3 << 8) | 20, 4);
  writeCommon(bytes, 6, entry);
  bytes.writeUInt32LE(((0o100000 | entry.mode) << 16) >>> 0, CENTRAL_HEADER.attributes);
  bytes.writeUInt32LE(entry.offset, CENTRAL_HEADER.offset);
  return Buffer.concat([bytes, entry.name]);
}

/** The part that both headers of a file have. */
function writeCommon(bytes: Buffer, at: number, entry: WrittenFile): void {
  bytes.writeUInt16LE(20, at);
  bytes.writeUInt16LE(UTF8_NAMES, at + 2);
  bytes.writeUInt16LE(8, at + 4);
  bytes.writeUInt32LE(FIXED_DATE, at + 6);
  bytes.writeUInt32LE(entry.crc, at + 10);
  bytes.writeUInt32LE(entry.packedSize, at + 14);
  bytes.writeUInt32LE(entry.size, at + 18);
  bytes.writeUInt16LE(entry.name.length, at + 22);
}

function endRecord(entries: number, centralSize: number, centralOffset: number): Buffer {
  const bytes = Buffer.alloc(END_RECORD.size);
  bytes.writeUInt32LE(END_RECORD.signature, 0);
  bytes.writeUInt16LE(entries, 8);
  bytes.writeUInt16LE(entries, END_RECORD.entries);
  bytes.writeUInt32LE(centralSize, END_RECORD.centralSize);
  bytes.writeUInt32LE(centralOffset, END_RECORD.centralOffset);
  return bytes;
}
