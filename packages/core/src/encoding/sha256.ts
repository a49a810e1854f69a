// SHA-256 (FIPS 180-4) as a plain function, because the core has no Node and a decision that needs a
// digest must be replayable anywhere. For small values; whoever hashes blobs uses the platform's own,
// and a program of Node hands that in for the small ones too.

import type { Digest } from "../ids.ts";
import { canonicalJson } from "./canonical.ts";
import { utf8Bytes } from "./utf8.ts";

/** The schedule of the block at hand; nothing is kept in it between two calls. */
const words = new Int32Array(64);

export function sha256(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const state = INITIAL.slice();
  const padded = pad(bytes);
  const view = new DataView(padded.buffer);
  for (let offset = 0; offset < padded.length; offset += 64) {
    for (let index = 0; index < 16; index++) words[index] = view.getInt32(offset + index * 4);
    compress(state, words);
  }

  const digest = new Uint8Array(32);
  const out = new DataView(digest.buffer);
  for (let index = 0; index < 8; index++) out.setInt32(index * 4, state[index] as number);
  return digest;
}

/** Of bytes, or of a text's UTF-8. */
type HexOf = (data: Uint8Array | string) => string;

let hexOf: HexOf = (data) => toHex(sha256(typeof data === "string" ? utf8Bytes(data) : data));

export function sha256Hex(data: Uint8Array | string): string {
  return hexOf(data);
}

/** A program hands in its machine's own, which says the same ten times as fast. */
export function useSha256(machineHex: HexOf): void {
  const text = "exclave \u{e9}\u{1f5dd}\ud800";
  const bytes = utf8Bytes(text);
  const hex = toHex(sha256(bytes));
  const isSame = machineHex(bytes) === hex && machineHex(text) === hex;
  if (!isSame) throw new TypeError("that is not SHA-256");
  hexOf = machineHex;
}

/** The digest of bytes, spelt as OCI spells it. */
export function digestOfBytes(bytes: Uint8Array): Digest {
  return `sha256:${sha256Hex(bytes)}` as Digest;
}

/** The digest of a value's canonical bytes: equal values, equal digests. */
export function digestOf(value: unknown): Digest {
  return `sha256:${sha256Hex(canonicalJson(value))}` as Digest;
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += HEX[byte];
  return text;
}

/** The first 32 bits of the fractional parts of the n-th roots of the first primes. */
function fractions(count: number, root: (prime: number) => number): Int32Array {
  const words: number[] = [];
  for (let candidate = 2; words.length < count; candidate++) {
    if (isPrime(candidate)) words.push(Math.floor((root(candidate) % 1) * 2 ** 32));
  }
  return Int32Array.from(words);
}

function isPrime(candidate: number): boolean {
  for (let factor = 2; factor * factor <= candidate; factor++) {
    if (candidate % factor === 0) return false;
  }
  return true;
}

const INITIAL = fractions(8, Math.sqrt);
const ROUND = fractions(64, Math.cbrt);

function pad(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes.length << 3);
  return padded;
}

// Written out without helpers: a digest stands behind every audit record, deploy key and manifest.
function compress(state: Int32Array, words: Int32Array): void {
  for (let index = 16; index < 64; index++) {
    const early = words[index - 15] as number;
    const late = words[index - 2] as number;
    const small =
      ((early >>> 7) | (early << 25)) ^ ((early >>> 18) | (early << 14)) ^ (early >>> 3);
    const large = ((late >>> 17) | (late << 15)) ^ ((late >>> 19) | (late << 13)) ^ (late >>> 10);
    words[index] =
      ((words[index - 16] as number) + small + (words[index - 7] as number) + large) | 0;
  }

  let a = state[0] as number;
  let b = state[1] as number;
  let c = state[2] as number;
  let d = state[3] as number;
  let e = state[4] as number;
  let f = state[5] as number;
  let g = state[6] as number;
  let h = state[7] as number;
  for (let index = 0; index < 64; index++) {
    const choice = (e & f) ^ (~e & g);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const upper = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const lower = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const first = (h + upper + choice + (ROUND[index] as number) + (words[index] as number)) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + lower + majority) | 0;
  }
  state[0] = (state[0] as number) + a;
  state[1] = (state[1] as number) + b;
  state[2] = (state[2] as number) + c;
  state[3] = (state[3] as number) + d;
  state[4] = (state[4] as number) + e;
  state[5] = (state[5] as number) + f;
  state[6] = (state[6] as number) + g;
  state[7] = (state[7] as number) + h;
}
