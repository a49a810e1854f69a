// A directory as a zip archive, the same bytes for the same files: no times, no owners, files in the
// order of their names. For what OpenTofu reads, which knows zip and nothing else. Written to a
// temporary file, since its digest must be known before it can be sent anywhere.

import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, readdir, realpath, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, sep } from "node:path";
import type { PassThrough } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type Digest, Failure } from "@exclave/core";
import type { PackedFile } from "@exclave/oci";
import { ZipFile } from "yazl";

export interface ZipOptions {
  readonly mediaType: string;
  readonly compressionLevel?: number;
}

export async function createZip(directory: string, options: ZipOptions): Promise<PackedFile> {
  const files = await filesOf(directory);
  checkSize(directory, files);
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
  readonly size: number;
}

/** What needs no 64-bit extension, which the reader refuses. */
const ENTRIES_MAX = 0xfffe;
const SIZE_MAX = 0xf000_0000;

function checkSize(directory: string, files: readonly SourceFile[]): void {
  if (files.length > ENTRIES_MAX) {
    throw new Failure("too_large", `${directory} holds more than ${ENTRIES_MAX} files`);
  }
  const size = files.reduce((sum, file) => sum + file.size, 0);
  if (size > SIZE_MAX) {
    throw new Failure("too_large", `${directory} does not fit into a zip archive of 4 GiB`);
  }
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
      // yazl would make a slash of it, and another file of this one.
      if (name.includes("\\")) throw new Failure("invalid", `${path} has a backslash in its name`);
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
        const mode = (found.mode & 0o100) === 0 ? 0o644 : 0o755;
        files.push({ path, from, mode, size: found.size });
      } else throw new Failure("invalid", `${path} is neither a file nor a directory`);
    }
  }
}

async function writeZip(file: string, files: readonly SourceFile[], level: number): Promise<void> {
  const zip = new ZipFile();
  // Some day. yazl writes local time, so it is meant in that: the same bytes in every time zone.
  const mtime = new Date(2000, 0, 1);
  const output = zip.outputStream as PassThrough;
  zip.on("error", (reason: Error) => output.destroy(reason));
  for (const { path, from, mode } of files) {
    zip.addFile(from, path, {
      mtime,
      forceDosTimestamp: true,
      mode: 0o100000 | mode,
      compressionLevel: level,
    });
  }
  zip.end();
  await pipeline(output, createWriteStream(file, { flags: "wx" }));
}
