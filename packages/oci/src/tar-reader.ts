// Reads a tar archive as it streams by: ustar, pax and GNU names. It says what the archive says; what
// of that is safe to put on a disk is decided where it is unpacked.

import { Failure } from "@exclave/core";

export interface ReadTarEntry {
  readonly path: string;
  readonly type: "file" | "directory" | "symlink" | "hardlink" | "other";
  readonly mode: number;
  readonly size: number;
  readonly target: string;
  /** The file's bytes; what is not read before the next entry is passed over. */
  readonly content: AsyncIterable<Uint8Array>;
}

const BLOCK = 512;
const EXTENSION_BYTES_MAX = 1024 * 1024;
const TYPES: Record<string, ReadTarEntry["type"]> = {
  "0": "file",
  "\0": "file",
  "7": "file",
  "1": "hardlink",
  "2": "symlink",
  "5": "directory",
};

export async function* readTar(source: AsyncIterable<Uint8Array>): AsyncIterable<ReadTarEntry> {
  const reader = createBlockReader(source);
  let global: Record<string, string> = {};
  let extended: Record<string, string> = {};
  try {
    for (;;) {
      const head = await reader.take(BLOCK);
      if (head === undefined || head.every((byte) => byte === 0)) break;
      checkSum(head);
      const flag = String.fromCharCode(head[156] ?? 0);
      const size = Number(extended["size"] ?? readNumber(head, 124, 12));
      if ("xgLK".includes(flag)) {
        const body = await reader.takeText(readNumber(head, 124, 12));
        if (flag === "x") extended = { ...extended, ...readRecords(body) };
        if (flag === "g") global = { ...global, ...readRecords(body) };
        if (flag === "L") extended["path"] = body.replace(/\0+$/, "");
        if (flag === "K") extended["linkpath"] = body.replace(/\0+$/, "");
        continue;
      }
      const type = TYPES[flag] ?? "other";
      const names = { ...global, ...extended };
      const bodySize = type === "file" || type === "other" ? size : 0;
      reader.begin(bodySize);
      yield {
        path: names["path"] ?? readPath(head),
        type,
        mode: readNumber(head, 100, 8) & 0o7777,
        size: bodySize,
        target: names["linkpath"] ?? readText(head, 157, 100),
        content: reader.body(),
      };
      await reader.skip();
      extended = {};
    }
    // What follows the end is padding; reading it lets the source come to its own end.
    await reader.drain();
  } finally {
    await reader.close();
  }
}

function createBlockReader(source: AsyncIterable<Uint8Array>) {
  const chunks = source[Symbol.asyncIterator]();
  let held: Uint8Array = new Uint8Array();
  let left = 0;
  let pad = 0;

  /** At most `max` bytes of what comes next; undefined at the end. */
  async function some(max: number): Promise<Uint8Array | undefined> {
    while (held.length === 0) {
      const next = await chunks.next();
      if (next.done) return undefined;
      held = next.value;
    }
    const part = held.subarray(0, max);
    held = held.subarray(part.length);
    return part;
  }

  async function take(size: number): Promise<Buffer | undefined> {
    const parts: Uint8Array[] = [];
    let missing = size;
    while (missing > 0) {
      const part = await some(missing);
      if (part === undefined && parts.length === 0) return undefined;
      if (part === undefined) throw cut();
      parts.push(part);
      missing -= part.length;
    }
    return Buffer.concat(parts);
  }

  async function* body(): AsyncIterable<Uint8Array> {
    while (left > 0) {
      const part = await some(left);
      if (part === undefined) throw cut();
      left -= part.length;
      yield part;
    }
  }

  return {
    take,
    body,
    async takeText(size: number): Promise<string> {
      if (size > EXTENSION_BYTES_MAX)
        throw new Failure("invalid", "a name in the archive is too long");
      const bytes = size === 0 ? Buffer.alloc(0) : await take(size);
      if (bytes === undefined) throw cut();
      if (size % BLOCK !== 0) await take(BLOCK - (size % BLOCK));
      return bytes.toString("utf8");
    },
    begin(size: number): void {
      left = size;
      pad = (BLOCK - (size % BLOCK)) % BLOCK;
    },
    async skip(): Promise<void> {
      for await (const _ of body());
      if (pad > 0) await take(pad);
    },
    async drain(): Promise<void> {
      while ((await some(Number.MAX_SAFE_INTEGER)) !== undefined);
    },
    async close(): Promise<void> {
      await chunks.return?.();
    },
  };
}

function readRecords(body: string): Record<string, string> {
  const records: Record<string, string> = {};
  let rest = Buffer.from(body);
  while (rest.length > 0) {
    const space = rest.indexOf(" ");
    const length = Number(rest.subarray(0, space).toString("latin1"));
    if (space < 1 || !Number.isInteger(length) || length <= space || length > rest.length) {
      throw new Failure("invalid", "the archive has a broken extended header");
    }
    const [key = "", ...value] = rest
      .subarray(space + 1, length - 1)
      .toString("utf8")
      .split("=");
    records[key] = value.join("=");
    rest = rest.subarray(length);
  }
  return records;
}

function readPath(head: Buffer): string {
  const isUstar = head.toString("latin1", 257, 262) === "ustar";
  const prefix = isUstar && head[262] === 0 ? readText(head, 345, 155) : "";
  const name = readText(head, 0, 100);
  return prefix === "" ? name : `${prefix}/${name}`;
}

function readText(head: Buffer, at: number, length: number): string {
  const field = head.subarray(at, at + length);
  const end = field.indexOf(0);
  return field.subarray(0, end === -1 ? length : end).toString("utf8");
}

/** Octal text, or a big-endian number marked by the top bit where octal was too short. */
function readNumber(head: Buffer, at: number, length: number): number {
  const field = head.subarray(at, at + length);
  if (((field[0] ?? 0) & 0x80) !== 0) {
    const value = field.subarray(1).reduce((total, byte) => total * 256 + byte, 0);
    if (Number.isSafeInteger(value)) return value;
    throw new Failure("invalid", "the archive has a size that cannot be");
  }
  const text = field
    .toString("latin1")
    .replace(/[\0 ]+$/, "")
    .trim();
  if (!/^[0-7]*$/.test(text)) throw new Failure("invalid", "the archive has a broken header");
  return text === "" ? 0 : Number.parseInt(text, 8);
}

function checkSum(head: Buffer): void {
  let sum = 0;
  for (const [index, byte] of head.entries()) sum += index >= 148 && index < 156 ? 32 : byte;
  if (sum !== readNumber(head, 148, 8)) {
    throw new Failure("invalid", "this is not a tar archive, or it is damaged");
  }
}

function cut(): Failure {
  return new Failure("invalid", "the archive ends in the middle");
}
