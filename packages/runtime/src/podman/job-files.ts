// A job's files as an archive that the engine unpacks into the job's volume: the job needs no disk in
// common with whoever starts it. Owned by the job's user, readable by it alone.

import { Failure } from "@exclave/core";

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

const BLOCK = 512;
const VERSION = "00";

/** The directory itself first, so that it is the job's from then on. */
export function jobArchive(
  owner: Owner,
  directories: readonly string[],
  files: Readonly<Record<string, string>>,
): Buffer {
  const parents = Object.keys(files).flatMap(parentsOf);
  const all = [...new Set([...directories, ...parents])].toSorted();
  return Buffer.concat([
    header("./", 0o700, owner, 0),
    ...all.map((path) => header(`./${plainPath(path)}/`, 0o700, owner, 0)),
    ...Object.entries(files).flatMap(([path, text]) => {
      const bytes = Buffer.from(text);
      const padding = Buffer.alloc((BLOCK - (bytes.length % BLOCK)) % BLOCK);
      return [header(`./${plainPath(path)}`, 0o600, owner, bytes.length), bytes, padding];
    }),
    Buffer.alloc(2 * BLOCK),
  ]);
}

function header(path: string, mode: number, { uid, gid }: Owner, size: number): Buffer {
  if (path.length > 100)
    throw new Failure("invalid", `${path} is too long a name for a job's file`);
  const block = Buffer.alloc(BLOCK);
  block.write(path, 0);
  block.write(octal(mode, 8), 100);
  block.write(octal(uid, 8), 108);
  block.write(octal(gid, 8), 116);
  block.write(octal(size, 12), 124);
  block.write(octal(0, 12), 136);
  block.write(" ".repeat(8), 148);
  block.write(path.endsWith("/") ? "5" : "0", 156);
  block.write(`ustar\0${VERSION}`, 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${octal(sum, 7)} `, 148);
  return block;
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
