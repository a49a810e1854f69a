// What a program of Linux needs beside itself, read from its own header: the loader that starts it and the
// libraries it is linked to. Nothing is run to find out.

import { type FileHandle, open } from "node:fs/promises";

export interface ElfNeeds {
  /** Undefined for a library, and for a program that stands alone. */
  readonly loader: string | undefined;
  /** By name, such as `libc.so.6`. */
  readonly libraries: readonly string[];
  /** Where it wants them looked for first; `$ORIGIN` is where it lies itself. */
  readonly searchPath: readonly string[];
}

const SEGMENT = { load: 1, dynamic: 2, loader: 3 } as const;
const TAG = { needed: 1n, strings: 5n, rpath: 15n, runpath: 29n } as const;
const SEGMENTS_MAX = 128;
const PART_BYTES_MAX = 4 * 1024 * 1024;

interface Segment {
  readonly type: number;
  readonly offset: number;
  readonly address: number;
  readonly size: number;
}

/** Undefined for what is no 64-bit little-endian program or library of Linux. */
export async function readElfNeeds(path: string): Promise<ElfNeeds | undefined> {
  const file = await open(path);
  try {
    const head = await part(file, 0, 64);
    const isElf = head.length === 64 && head.readUInt32BE(0) === 0x7f454c46;
    if (!isElf || head[4] !== 2 || head[5] !== 1) return undefined;
    const segments = await readSegments(file, head);
    const loader = segments.find(({ type }) => type === SEGMENT.loader);
    return {
      loader: loader && textAt(await part(file, loader.offset, loader.size), 0),
      ...(await readDynamic(file, segments)),
    };
  } finally {
    await file.close();
  }
}

async function readSegments(file: FileHandle, head: Buffer): Promise<Segment[]> {
  const offset = Number(head.readBigUInt64LE(32));
  const size = head.readUInt16LE(54);
  const count = Math.min(head.readUInt16LE(56), SEGMENTS_MAX);
  const table = await part(file, offset, size * count);
  const starts = Array.from({ length: count }, (_, index) => index * size);
  return starts
    .filter((at) => at + 40 <= table.length)
    .map((at) => ({
      type: table.readUInt32LE(at),
      offset: Number(table.readBigUInt64LE(at + 8)),
      address: Number(table.readBigUInt64LE(at + 16)),
      size: Number(table.readBigUInt64LE(at + 32)),
    }));
}

async function readDynamic(
  file: FileHandle,
  segments: readonly Segment[],
): Promise<Pick<ElfNeeds, "libraries" | "searchPath">> {
  const dynamic = segments.find(({ type }) => type === SEGMENT.dynamic);
  if (!dynamic) return { libraries: [], searchPath: [] };
  const table = await part(file, dynamic.offset, dynamic.size);
  const entries: { readonly tag: bigint; readonly value: number }[] = [];
  for (let at = 0; at + 16 <= table.length; at += 16) {
    const tag = table.readBigUInt64LE(at);
    entries.push({ tag, value: Number(table.readBigUInt64LE(at + 8)) });
  }
  const valuesOf = (tag: bigint) => entries.filter((entry) => entry.tag === tag);
  const address = valuesOf(TAG.strings)[0]?.value ?? 0;
  const home = segments.find(
    (one) =>
      one.type === SEGMENT.load && address >= one.address && address < one.address + one.size,
  );
  if (!home) return { libraries: [], searchPath: [] };
  const inside = address - home.address;
  const strings = await part(file, home.offset + inside, home.size - inside);
  const textOf = ({ value }: { readonly value: number }) => textAt(strings, value);
  const paths = [...valuesOf(TAG.rpath), ...valuesOf(TAG.runpath)].map(textOf);
  return {
    libraries: valuesOf(TAG.needed).map(textOf),
    searchPath: paths.flatMap((text) => text.split(":")).filter((text) => text !== ""),
  };
}

function textAt(bytes: Buffer, start: number): string {
  const end = bytes.indexOf(0, start);
  return bytes.toString("utf8", start, end < 0 ? undefined : end);
}

async function part(file: FileHandle, offset: number, size: number): Promise<Buffer> {
  const wanted = Math.min(size, PART_BYTES_MAX);
  const { bytesRead, buffer } = await file.read(Buffer.alloc(wanted), 0, wanted, offset);
  return buffer.subarray(0, bytesRead);
}
