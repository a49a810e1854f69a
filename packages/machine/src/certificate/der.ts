// The few forms of DER (X.690) that a certificate is made of, written and read.

import { Failure } from "@exclave/core";

const TAGS = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utf8: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

export function tagged(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag]), lengthOf(body.length), body]);
}

export function sequence(...parts: readonly Uint8Array[]): Buffer {
  return tagged(TAGS.sequence, ...parts);
}

export function set(...parts: readonly Uint8Array[]): Buffer {
  return tagged(TAGS.set, ...parts);
}

export function boolean(value: boolean): Buffer {
  return tagged(TAGS.boolean, Buffer.from([value ? 0xff : 0x00]));
}

/** A positive number, as its bytes. */
export function integer(bytes: Uint8Array): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0);
  const short = first < 0 ? Buffer.from([0]) : Buffer.from(bytes.subarray(first));
  // A leading bit would make it negative.
  return tagged(TAGS.integer, ...((short[0] ?? 0) >= 0x80 ? [Buffer.from([0])] : []), short);
}

export function octetString(bytes: Uint8Array): Buffer {
  return tagged(TAGS.octetString, bytes);
}

export function bitString(bytes: Uint8Array, unusedBits = 0): Buffer {
  return tagged(TAGS.bitString, Buffer.from([unusedBits]), bytes);
}

export function utf8(text: string): Buffer {
  return tagged(TAGS.utf8, Buffer.from(text, "utf8"));
}

export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  return tagged(TAGS.oid, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

/** RFC 5280: two digits of the year until 2049, four from then on. */
export function time(at: number): Buffer {
  const digits = new Date(at).toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  const isShort = new Date(at).getUTCFullYear() < 2050;
  const text = isShort ? digits.slice(2) : digits;
  return tagged(isShort ? TAGS.utcTime : TAGS.generalizedTime, Buffer.from(text, "latin1"));
}

export interface DerValue {
  readonly tag: number;
  /** With tag and length. */
  readonly whole: Buffer;
  readonly body: Buffer;
}

/** The values that stand one after the other in these bytes. */
export function readValues(bytes: Uint8Array): DerValue[] {
  const rest = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const values: DerValue[] = [];
  for (let at = 0; at < rest.length; ) {
    const { tag, from, to } = readHead(rest, at);
    values.push({ tag, whole: rest.subarray(at, to), body: rest.subarray(from, to) });
    at = to;
  }
  return values;
}

function readHead(bytes: Buffer, at: number): { tag: number; from: number; to: number } {
  const tag = bytes[at] ?? 0;
  const first = bytes[at + 1] ?? 0;
  const more = first < 0x80 ? 0 : first & 0x7f;
  if (more > 4) throw damaged();
  const from = at + 2 + more;
  const length = more === 0 ? first : bytes.subarray(at + 2, from).readUIntBE(0, more);
  if (from + length > bytes.length) throw damaged();
  return { tag, from, to: from + length };
}

function damaged(): Failure {
  return new Failure("invalid", "this is not a certificate in DER");
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.from([length]);
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(length);
  const short = bytes.subarray(bytes.findIndex((byte) => byte !== 0));
  return Buffer.concat([Buffer.from([0x80 | short.length]), short]);
}

function base128(value: number): number[] {
  const digits = [value & 0x7f];
  for (let rest = value >>> 7; rest > 0; rest >>>= 7) digits.unshift((rest & 0x7f) | 0x80);
  return digits;
}
