// One entry as blocks of 512 bytes. Everything that could differ between two machines is fixed.

import { unreachable } from "../failure.ts";
import type { TarEntry } from "./tar.ts";

export const BLOCK = 512;

const NAME_BYTES = 100;
const MODE_LINK = 0o777;
const PAX_PATH = "pax";

export function encodeEntry(entry: TarEntry): Uint8Array[] {
  switch (entry.type) {
    case "file":
      return [...named("0", entry.path, "", entry.mode, entry.bytes.length), padded(entry.bytes)];
    case "directory":
      return named("5", `${entry.path}/`, "", entry.mode, 0);
    case "symlink":
      return named("2", entry.path, entry.target, MODE_LINK, 0);
    default:
      return unreachable(entry);
  }
}

/** Two empty blocks end an archive. */
export function encodeEnd(): Uint8Array {
  return new Uint8Array(2 * BLOCK);
}

/** Sum of all bytes of a header, its own field counted as spaces. */
export function checksum(block: Uint8Array): number {
  return block.reduce((sum, byte, index) => sum + (index >= 148 && index < 156 ? 32 : byte), 0);
}

function named(type: string, path: string, link: string, mode: number, size: number): Uint8Array[] {
  const records: [string, string][] = [];
  if (!fits(path)) records.push(["path", path]);
  if (!fits(link)) records.push(["linkpath", link]);
  const main = header(type, fits(path) ? path : PAX_PATH, fits(link) ? link : PAX_PATH, mode, size);
  if (records.length === 0) return [main];

  const pax = concatText(records.map(([key, value]) => paxRecord(key, value)));
  return [header("x", PAX_PATH, "", 0o644, pax.length), padded(pax), main];
}

function header(type: string, path: string, link: string, mode: number, size: number): Uint8Array {
  const block = new Uint8Array(BLOCK);
  const put = (offset: number, text: string) => block.set(new TextEncoder().encode(text), offset);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;

  put(0, path);
  put(100, octal(mode & 0o7777, 7));
  put(108, octal(0, 7));
  put(116, octal(0, 7));
  put(124, octal(size, 11));
  put(136, octal(0, 11));
  put(156, type);
  put(157, link);
  put(257, "ustar\x0000");
  put(148, `${checksum(block).toString(8).padStart(6, "0")}\0 `);
  return block;
}

function fits(name: string): boolean {
  return /^[\x20-\x7e]*$/.test(name) && name.length <= NAME_BYTES;
}

/** `<length> <key>=<value>\n`, where the length counts its own digits. */
function paxRecord(key: string, value: string): Uint8Array {
  const rest = new TextEncoder().encode(` ${key}=${value}\n`).length;
  let length = rest + 1;
  while (`${length}`.length + rest !== length) length++;
  return new TextEncoder().encode(`${length} ${key}=${value}\n`);
}

function concatText(parts: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

function padded(bytes: Uint8Array): Uint8Array {
  const whole = new Uint8Array(Math.ceil(bytes.length / BLOCK) * BLOCK);
  whole.set(bytes);
  return whole;
}
