// Files as an archive that an engine unpacks into a volume or reads an image from: whoever makes the archive and
// whoever gets the files share no disk. Owners and modes are the archive's to say.

import { createReadStream } from "node:fs";
import { readdir, readlink, stat } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "@exclave/core";

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

export interface ArchiveEntry {
  /** One that ends in a slash is a directory. */
  readonly path: string;
  readonly mode: number;
  readonly size: number;
  readonly owner?: Owner;
  /** Of a symbolic link. */
  readonly target?: string;
}

export interface ArchivedFile {
  readonly path: string;
  readonly mode: number;
  readonly content: Uint8Array;
  readonly owner?: Owner;
}

const BLOCK = 512;
const VERSION = "00";
const NOBODY: Owner = { uid: 0, gid: 0 };

export function archive(files: readonly ArchivedFile[]): Buffer {
  return Buffer.concat([...files.flatMap(fileBlocks), Buffer.alloc(2 * BLOCK)]);
}

/** A directory and small files in it, all of one owner and readable by it alone. */
export function ownedArchive({
  owner,
  mode = 0o700,
  directories = [],
  files = {},
}: {
  readonly owner: Owner;
  /** Of the directory itself. */
  readonly mode?: number;
  readonly directories?: readonly string[];
  readonly files?: Readonly<Record<string, string>>;
}): Buffer {
  const parents = Object.keys(files).flatMap(parentsOf);
  const all = [...new Set([...directories, ...parents])].toSorted();
  return Buffer.concat([
    // First, so that it is the owner's from then on.
    archiveHeader({ path: "./", mode, size: 0, owner }),
    ...all.map((path) =>
      archiveHeader({ path: `./${plainPath(path)}/`, mode: 0o700, size: 0, owner }),
    ),
    ...Object.entries(files).flatMap(([path, text]) =>
      fileBlocks({ path: `./${plainPath(path)}`, mode: 0o600, content: Buffer.from(text), owner }),
    ),
    Buffer.alloc(2 * BLOCK),
  ]);
}

/** Everything below a directory of this machine, as it is there, made the owner's. */
export async function* directoryArchive(
  directory: string,
  owner: Owner,
): AsyncIterable<Uint8Array> {
  yield archiveHeader({ path: "./", mode: 0o700, size: 0, owner });
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const found = entries.map((entry) => ({ entry, path: join(entry.parentPath, entry.name) }));
  for (const { entry, path } of found.toSorted((a, b) => (a.path < b.path ? -1 : 1))) {
    const inside = `./${path.slice(directory.length).replace(/^\/+/, "")}`;
    if (entry.isDirectory()) {
      yield archiveHeader({ path: `${inside}/`, mode: 0o700, size: 0, owner });
    } else if (entry.isSymbolicLink()) {
      const target = await readlink(path);
      yield archiveHeader({ path: inside, mode: 0o777, size: 0, owner, target });
    } else if (entry.isFile()) {
      const { size, mode } = await stat(path);
      yield archiveHeader({ path: inside, mode: mode & 0o100 ? 0o700 : 0o600, size, owner });
      yield* createReadStream(path);
      yield padding(size);
    }
  }
  yield Buffer.alloc(2 * BLOCK);
}

/** Before a file's bytes; behind them an archive is padded to the next 512. */
export function archiveHeader({ path, mode, size, owner = NOBODY, target }: ArchiveEntry): Buffer {
  const link = target ?? "";
  const extended = [
    ...(Buffer.byteLength(path) > 100 ? [record("path", path)] : []),
    ...(Buffer.byteLength(link) > 100 ? [record("linkpath", link)] : []),
  ].join("");
  const type = target !== undefined ? "2" : path.endsWith("/") ? "5" : "0";
  const main = block({ path, mode, size, owner, link, type });
  if (extended === "") return main;
  const body = Buffer.from(extended);
  const size2 = body.length;
  const pax = block({ path: "pax", mode: 0o600, size: size2, owner, link: "", type: "x" });
  return Buffer.concat([pax, body, padding(size2), main]);
}

export function padding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
}

function fileBlocks({ path, mode, content, owner = NOBODY }: ArchivedFile): Uint8Array[] {
  const size = content.length;
  return [archiveHeader({ path, mode, size, owner }), content, padding(size)];
}

function block(entry: {
  readonly path: string;
  readonly mode: number;
  readonly size: number;
  readonly owner: Owner;
  readonly link: string;
  readonly type: string;
}): Buffer {
  const { path, mode, size, owner, link, type } = entry;
  const bytes = Buffer.alloc(BLOCK);
  bytes.write(path, 0, 100);
  bytes.write(octal(mode, 8), 100);
  bytes.write(octal(owner.uid, 8), 108);
  bytes.write(octal(owner.gid, 8), 116);
  bytes.write(octal(size, 12), 124);
  bytes.write(octal(0, 12), 136);
  bytes.write(" ".repeat(8), 148);
  bytes.write(type, 156);
  bytes.write(link, 157, 100);
  bytes.write(`ustar\0${VERSION}`, 257);
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  bytes.write(`${octal(sum, 7)} `, 148);
  return bytes;
}

/** A pax record counts its own length, the digits of that length included. */
function record(key: string, value: string): string {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest + String(rest).length;
  if (String(length).length !== String(rest).length) length = rest + String(length).length;
  return `${length} ${key}=${value}\n`;
}

function octal(value: number, width: number): string {
  return `${value.toString(8).padStart(width - 1, "0")}\0`;
}

function parentsOf(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}

/** A relative path of plain names, so that it stays where it is put. */
export function plainPath(path: string): string {
  const isPlain = path.split("/").every((part) => /^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(part));
  if (!isPlain) throw new Failure("invalid", `${JSON.stringify(path)} is no plain path`);
  return path;
}
