// What the headers of a tar archive say, decided once for everybody who reads one: ustar, pax and
// GNU names. Where readers are known to differ (a size that is no number, a name given twice, sparse
// files) the archive is refused: what we check must be what anybody else unpacks.

import { Failure } from "../failure.ts";
import { isSize } from "./archive-limits.ts";
import { BLOCK, checksum } from "./tar-header.ts";

export interface TarHeader {
  readonly path: string;
  readonly type: "file" | "directory" | "symlink" | "hardlink" | "other";
  readonly mode: number;
  /** Of the content that follows; 0 for what has none. */
  readonly size: number;
  /** Where a link leads. */
  readonly target: string;
}

export type TarBlock =
  | { readonly kind: "end" }
  /** `size` bytes follow, to be handed to `extend`: they are about the entry after them. */
  | { readonly kind: "extension"; readonly size: number }
  | { readonly kind: "entry"; readonly header: TarHeader };

export interface TarHeaders {
  /** Reads the next block of 512 bytes that is a header. */
  read(block: Uint8Array): TarBlock;
  /** Takes the content of the extension `read` just told of. */
  extend(content: Uint8Array): void;
}

const EXTENSION_BYTES_MAX = 1024 * 1024;
/** Between two entries. Without an end to them an archive could be headers for ever. */
const EXTENSIONS_MAX = 8;
const TYPES: Readonly<Record<string, TarHeader["type"]>> = {
  "0": "file",
  "\0": "file",
  "7": "file",
  "1": "hardlink",
  "2": "symlink",
  "5": "directory",
};

interface Extended {
  path?: string;
  target?: string;
  size?: number;
}

export function createTarHeaders(): TarHeaders {
  let extended: Extended = {};
  let extensions = 0;
  let flag = "";

  return { read, extend };

  function read(block: Uint8Array): TarBlock {
    if (block.every((byte) => byte === 0)) return { kind: "end" };
    if (readNumber(block, 148, 8) !== checksum(block)) {
      throw broken("a header's checksum is wrong; it is no tar archive, or it is damaged");
    }
    flag = String.fromCharCode(block[156] ?? 0);
    if ("xgLK".includes(flag)) return { kind: "extension", size: extensionSize(block) };

    const header = entryHeader(block, flag, extended);
    extended = {};
    extensions = 0;
    return { kind: "entry", header };
  }

  function extensionSize(block: Uint8Array): number {
    extensions += 1;
    if (extensions > EXTENSIONS_MAX) throw broken("an entry has too many extended headers");
    const size = readNumber(block, 124, 12);
    if (size > EXTENSION_BYTES_MAX) throw broken("an extended header is too long");
    return size;
  }

  function extend(content: Uint8Array): void {
    switch (flag) {
      case "x":
        for (const [key, value] of readPax(content)) extended = withRecord(extended, key, value);
        return;
      case "g":
        for (const [key] of readPax(content)) refuseForAll(key);
        return;
      case "L":
        extended = withRecord(extended, "path", text(content));
        return;
      case "K":
        extended = withRecord(extended, "linkpath", text(content));
        return;
    }
  }
}

function entryHeader(block: Uint8Array, flag: string, extended: Extended): TarHeader {
  const path = extended.path ?? headerPath(block);
  // Archives older than POSIX mark a directory by its name alone.
  const isOldDirectory = (flag === "0" || flag === "\0") && path.endsWith("/");
  const type = isOldDirectory ? "directory" : (TYPES[flag] ?? "other");
  const size = extended.size ?? readNumber(block, 124, 12);
  return {
    path,
    type,
    mode: readNumber(block, 100, 8) & 0o7777,
    // What a link or a directory says of its size is about something else: nothing follows it.
    size: type === "file" || type === "other" ? size : 0,
    target: extended.target ?? text(block.subarray(157, 257)),
  };
}

function withRecord(extended: Extended, key: string, value: string): Extended {
  if (key.startsWith("GNU.sparse.")) throw broken("it has a sparse file");
  if (key !== "path" && key !== "linkpath" && key !== "size") return extended;
  const name = key === "linkpath" ? "target" : key;
  if (extended[name] !== undefined) throw broken(`an entry is given its ${key} twice`);
  return { ...extended, [name]: key === "size" ? decimal(value) : value };
}

/** A global header is for comments; one that names or sizes every entry names none of them. */
function refuseForAll(key: string): void {
  if (key === "path" || key === "linkpath" || key === "size") {
    throw broken(`it gives all entries one ${key}`);
  }
}

function decimal(value: string): number {
  const size = /^[0-9]{1,16}$/.test(value) ? Number(value) : Number.NaN;
  if (!isSize(size)) throw broken("it has a size that cannot be");
  return size;
}

function* readPax(content: Uint8Array): Iterable<[key: string, value: string]> {
  for (let offset = 0; offset < content.length; ) {
    const space = content.indexOf(0x20, offset);
    const digits = space < 0 ? "" : text(content.subarray(offset, space));
    const length = /^[0-9]{1,7}$/.test(digits) ? Number(digits) : Number.NaN;
    const end = offset + length;
    if (!(length > digits.length + 2 && end <= content.length && content[end - 1] === 0x0a)) {
      throw broken("an extended header is malformed");
    }
    const record = content.subarray(space + 1, end - 1);
    const equals = record.indexOf(0x3d);
    if (equals < 1) throw broken("an extended header is malformed");
    const key = decode(record.subarray(0, equals));
    // Only what is used must be text: attributes of files may be any bytes.
    if (isUsed(key)) yield [key, used(record.subarray(equals + 1))];
    offset = end;
  }
}

function isUsed(key: string): boolean {
  return key === "path" || key === "linkpath" || key === "size" || key.startsWith("GNU.sparse.");
}

function used(value: Uint8Array): string {
  if (value.includes(0)) throw broken("an extended header is malformed");
  return decode(value);
}

function headerPath(block: Uint8Array): string {
  const name = text(block.subarray(0, 100));
  const isPosix = text(block.subarray(257, 263)) === "ustar";
  const prefix = isPosix ? text(block.subarray(345, 500)) : "";
  return prefix ? `${prefix}/${name}` : name;
}

/** Octal text, or a big-endian number marked by the top bit where octal was too short. */
function readNumber(block: Uint8Array, at: number, length: number): number {
  const field = block.subarray(at, at + length);
  const marker = field[0] ?? 0;
  if (marker >= 0x80) {
    // Any other marker is a negative number, or one that no file is long.
    const value = field.subarray(1).reduce((total, byte) => total * 256 + byte, 0);
    if (marker !== 0x80 || !isSize(value)) throw broken("it has a size that cannot be");
    return value;
  }
  const digits = text(field).trim();
  if (!/^[0-7]*$/.test(digits)) throw broken("a header has a field that is no number");
  return digits === "" ? 0 : Number.parseInt(digits, 8);
}

/** Text up to the first NUL. */
function text(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return decode(end < 0 ? bytes : bytes.subarray(0, end));
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new Failure("invalid", "the archive cannot be read: a name is not UTF-8", { cause });
  }
}

/** How many bytes follow an entry's content, up to the next header. */
export function paddingOf(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

function broken(because: string): Failure {
  return new Failure("invalid", `the archive cannot be read: ${because}`);
}
