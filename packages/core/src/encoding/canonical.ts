// The one way to write a JSON value as bytes, so that equal values have equal bytes and digests:
// keys sorted by UTF-16 code unit, no white space, numbers as ECMAScript writes them (RFC 8785).

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json | undefined };

const ENCODER = new TextEncoder();

export function canonicalJson(value: unknown): string {
  if (value === null || typeof value === "boolean" || typeof value === "string") {
    return JSON.stringify(value);
  }
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
      text += `${text === "" ? "" : ","}${JSON.stringify(key)}:${canonicalJson(member)}`;
    }
    return `{${text}}`;
  }
  throw new TypeError(`a ${typeof value} has no JSON form`);
}

export function canonicalBytes(value: unknown): Uint8Array {
  return ENCODER.encode(canonicalJson(value));
}
