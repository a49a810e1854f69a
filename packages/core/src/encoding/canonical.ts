// The one way to write a JSON value as bytes, so that equal values have equal bytes and digests:
// keys sorted by UTF-16 code unit, no white space, numbers as ECMAScript writes them (RFC 8785).

import { utf8Bytes } from "./utf8.ts";

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json | undefined };

/** Text that JSON writes as it is, between quotes; most text is like that. */
const PLAIN = /^[ !#-[\]-~]*$/;

export function canonicalJson(value: unknown): string {
  if (typeof value === "string") return quoted(value);
  if (value === null) return "null";
  if (typeof value === "boolean") return value ? "true" : "false";
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new TypeError(`${value} has no JSON form`);
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value === "object") {
    const members = value as Readonly<Record<string, unknown>>;
    let text = "";
    for (const key of Object.keys(members).sort()) {
      const member = members[key];
      if (member === undefined) continue;
      if (text !== "") text += ",";
      text += `${quoted(key)}:${canonicalJson(member)}`;
    }
    return `{${text}}`;
  }
  throw new TypeError(`a ${typeof value} has no JSON form`);
}

function quoted(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}

export function canonicalBytes(value: unknown): Uint8Array {
  return utf8Bytes(canonicalJson(value));
}
