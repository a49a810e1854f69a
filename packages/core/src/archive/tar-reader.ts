// Reads the records of an archive, without judging where they lie.

import { Failure } from "../failure.ts";
import type { TarEntry } from "./tar.ts";
import { BLOCK, checksum } from "./tar-header.ts";

interface Names {
  path?: string;
  link?: string;
}

export function* readRecords(bytes: Uint8Array): Iterable<TarEntry> {
  const files = new Map<string, Uint8Array>();
  let names: Names = {};
  for (let offset = 0; ; ) {
    const block = bytes.subarray(offset, offset + BLOCK);
    if (block.length < BLOCK) throw broken("it ends in the middle");
    if (block.every((byte) => byte === 0)) return;
    if (octal(block, 148, 8) !== checksum(block)) throw broken("a header's checksum is wrong");

    const size = octal(block, 124, 12);
    const content = bytes.subarray(offset + BLOCK, offset + BLOCK + size);
    if (content.length < size) throw broken("it ends in the middle");
    offset += BLOCK + Math.ceil(size / BLOCK) * BLOCK;

    const type = String.fromCharCode(block[156] ?? 0);
    const meta = readNames(type, content);
    if (meta) {
      names = { ...names, ...meta };
      continue;
    }
    const entry = readEntry(type, block, content, names, files);
    names = {};
    if (entry.type === "file") files.set(entry.path, entry.bytes);
    yield entry;
  }
}

/** Names for the entry that follows, where they did not fit its header. */
function readNames(type: string, content: Uint8Array): Names | undefined {
  switch (type) {
    case "x":
      return readPax(content);
    case "g":
      return {};
    case "L":
      return { path: text(content) };
    case "K":
      return { link: text(content) };
    default:
      return undefined;
  }
}

function readEntry(
  type: string,
  block: Uint8Array,
  content: Uint8Array,
  names: Names,
  files: ReadonlyMap<string, Uint8Array>,
): TarEntry {
  const path = names.path ?? headerPath(block);
  const target = names.link ?? text(block.subarray(157, 257));
  const mode = octal(block, 100, 8) & 0o7777;
  switch (type) {
    case "\0":
    case "0":
      // Archives older than POSIX mark a directory by its name alone.
      return path.endsWith("/")
        ? { type: "directory", path, mode }
        : { type: "file", path, mode, bytes: Uint8Array.from(content) };
    case "1": {
      const linked = files.get(target);
      if (!linked) throw broken(`${path} is a second name of ${target}, which is not there`);
      return { type: "file", path, mode, bytes: linked };
    }
    case "2":
      return { type: "symlink", path, target };
    case "5":
      return { type: "directory", path, mode };
    default:
      throw broken(`${path} is neither file, directory nor link`);
  }
}

function headerPath(block: Uint8Array): string {
  const name = text(block.subarray(0, 100));
  const isPosix = text(block.subarray(257, 263)) === "ustar";
  const prefix = isPosix ? text(block.subarray(345, 500)) : "";
  return prefix ? `${prefix}/${name}` : name;
}

function readPax(content: Uint8Array): Names {
  const names: Names = {};
  for (let offset = 0; offset < content.length; ) {
    const space = content.indexOf(0x20, offset);
    const length = space < 0 ? Number.NaN : Number(text(content.subarray(offset, space)));
    if (!Number.isInteger(length) || length <= space - offset || offset + length > content.length) {
      throw broken("a pax header is malformed");
    }
    const record = decode(content.subarray(space + 1, offset + length - 1));
    const equals = record.indexOf("=");
    const value = record.slice(equals + 1);
    switch (record.slice(0, equals)) {
      case "path":
        names.path = value;
        break;
      case "linkpath":
        names.link = value;
        break;
      case "size":
        throw broken("it has an entry too large to be read at once");
    }
    offset += length;
  }
  return names;
}

function octal(block: Uint8Array, offset: number, length: number): number {
  const digits = text(block.subarray(offset, offset + length)).trim();
  if (!/^[0-7]*$/.test(digits)) throw broken("a header has a field that is no number");
  return Number.parseInt(digits || "0", 8);
}

/** Text up to the first NUL. */
function text(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return decode(end < 0 ? bytes : bytes.subarray(0, end));
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new Failure("invalid", "the archive cannot be read: a name is not UTF-8", { cause });
  }
}

function broken(because: string): Failure {
  return new Failure("invalid", `the archive cannot be read: ${because}`);
}
