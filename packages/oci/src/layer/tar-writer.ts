// A tar archive as a stream, the same bytes for the same entries: no owners, no times, only what the
// entries say. ustar, with a pax record where a name or a size does not fit.

import { Failure } from "@exclave/core";

export type TarEntry = { readonly path: string; readonly mode: number } & (
  | { readonly type: "directory" }
  | { readonly type: "symlink"; readonly target: string }
  | { readonly type: "file"; readonly size: number; open(): AsyncIterable<Uint8Array> }
);

const BLOCK = 512;
const OCTAL_SIZE_MAX = 0o77777777777;
const FLAGS = { file: "0", symlink: "2", directory: "5" } as const;

export async function* writeTar(
  entries: Iterable<TarEntry> | AsyncIterable<TarEntry>,
): AsyncIterable<Uint8Array> {
  for await (const entry of entries) {
    yield header(entry);
    if (entry.type !== "file") continue;
    let written = 0;
    for await (const chunk of entry.open()) {
      written += chunk.length;
      yield chunk;
    }
    if (written !== entry.size) {
      throw new Failure("conflict", `${entry.path} changed while it was packed`);
    }
    yield new Uint8Array(padding(written));
  }
  yield new Uint8Array(2 * BLOCK);
}

function header(entry: TarEntry): Uint8Array {
  const path = entry.type === "directory" ? `${entry.path}/` : entry.path;
  const link = entry.type === "symlink" ? entry.target : "";
  const size = entry.type === "file" ? entry.size : 0;
  const extended = [
    ...(Buffer.byteLength(path) > 100 || !isAscii(path) ? [record("path", path)] : []),
    ...(Buffer.byteLength(link) > 100 || !isAscii(link) ? [record("linkpath", link)] : []),
    ...(size > OCTAL_SIZE_MAX ? [record("size", String(size))] : []),
  ].join("");
  const main = block(path, entry.mode, Math.min(size, OCTAL_SIZE_MAX), FLAGS[entry.type], link);
  if (extended === "") return main;

  const body = Buffer.from(extended);
  const pax = block("pax", 0o644, body.length, "x", "");
  return Buffer.concat([pax, body, new Uint8Array(padding(body.length)), main]);
}

function block(path: string, mode: number, size: number, flag: string, link: string): Buffer {
  const bytes = Buffer.alloc(BLOCK);
  bytes.write(path, 0, 100);
  bytes.write(octal(mode, 8), 100);
  bytes.write(octal(0, 8), 108);
  bytes.write(octal(0, 8), 116);
  bytes.write(octal(size, 12), 124);
  bytes.write(octal(0, 12), 136);
  bytes.write("        ", 148);
  bytes.write(flag, 156);
  bytes.write(link, 157, 100);
  bytes.write("ustar\x0000", 257, "latin1");
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
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

function padding(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length;
}
