// Takes known secret values out of text before it leaves the install, in every spelling a program
// is likely to print: as it is, inside JSON, inside a URL, in base64 (also in the middle of a longer
// base64 text, as in a basic-auth header), and each line of a value of several lines.

import { toBase64 } from "./encoding/base64.ts";

export const REDACTED = "[redacted]";

/** A shorter value would take half of all words out of a log, and is no secret worth the name. */
const LENGTH_MIN = 6;

export interface Redactor {
  (text: string): string;
  /** Values that became known on the way: what a job says is sensitive is so from there on. */
  add(secrets: Iterable<string>): void;
}

export function createRedactor(secrets: Iterable<string>): Redactor {
  // By their first letters, so that a line costs the same whether there are three secrets or thousands.
  const needles = new Map<string, Set<string>>();
  const firstLetters = new Set<number>();
  add(secrets);
  return Object.assign(redactLine, { add });

  function add(more: Iterable<string>): void {
    for (const needle of [...more].flatMap(spellings)) {
      const start = needle.slice(0, LENGTH_MIN);
      const known = needles.get(start);
      if (known) known.add(needle);
      else needles.set(start, new Set([needle]));
      firstLetters.add(needle.charCodeAt(0));
    }
  }

  function redactLine(line: string): string {
    const hits: Span[] = [];
    for (let at = 0; at + LENGTH_MIN <= line.length; at++) {
      if (!firstLetters.has(line.charCodeAt(at))) continue;
      let end = at;
      for (const needle of needles.get(line.slice(at, at + LENGTH_MIN)) ?? []) {
        if (line.startsWith(needle, at)) end = Math.max(end, at + needle.length);
      }
      if (end > at) hits.push([at, end]);
    }
    return hits.length === 0 ? line : withoutSpans(line, hits);
  }
}

export function redact(line: string, secrets: Iterable<string>): string {
  return createRedactor(secrets)(line);
}

export interface Leaves {
  /** Every text and number in the value that is long enough to be a secret, and the value as JSON. */
  readonly values: readonly string[];
  readonly count: number;
  readonly depth: number;
}

/** Deeper, or beyond so many parts, nothing is looked at: whoever asks refuses such a value. */
const LEAVES_DEPTH_MAX = 100;
const PARTS_MAX = 1_000_000;

/** What must not be shown of a value: all of it, and each part by itself. */
export function leavesOf(value: unknown): Leaves {
  const values = new Set<string>();
  let count = 0;
  let depth = 0;
  let parts = 0;
  // A list of what is left instead of a function that calls itself: a value may be deep on purpose.
  const left: { readonly value: unknown; readonly level: number }[] = [{ value, level: 0 }];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const { value: part, level } = next;
    depth = Math.max(depth, level);
    parts += 1;
    // A value that contains itself would never end.
    if (parts > PARTS_MAX) return { values: [], count: parts, depth };
    if (level > LEAVES_DEPTH_MAX) continue;
    if (typeof part === "object" && part !== null) {
      for (const inner of Object.values(part)) left.push({ value: inner, level: level + 1 });
      continue;
    }
    count += 1;
    if (typeof part === "string") {
      values.add(part);
      // A key file is often JSON in a text: its parts are as secret as the whole.
      const parsed = level < LEAVES_DEPTH_MAX ? parsedObject(part) : undefined;
      if (parsed !== undefined) left.push({ value: parsed, level: level + 1 });
    }
    if (typeof part === "number" || typeof part === "bigint") values.add(String(part));
  }
  if (depth <= LEAVES_DEPTH_MAX && typeof value === "object") values.add(JSON.stringify(value));
  return { values: [...values].filter((text) => text.length >= LENGTH_MIN), count, depth };
}

function parsedObject(text: string): unknown {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function spellings(secret: string): string[] {
  if (secret.length < LENGTH_MIN) return [];
  const json = JSON.stringify(secret).slice(1, -1);
  const lines = secret.split(/\r?\n/).filter((line) => line !== secret);
  return [
    secret,
    json,
    JSON.stringify(json).slice(1, -1),
    ...urlSpellings(secret),
    ...base64Spellings(secret),
    ...lines,
  ].filter((spelling) => spelling.length >= LENGTH_MIN);
}

function urlSpellings(secret: string): string[] {
  // A lone surrogate has no URL form.
  if (!secret.isWellFormed()) return [];
  const upper = encodeURIComponent(secret);
  const lower = upper.replace(/%[0-9A-F]{2}/g, (escape) => escape.toLowerCase());
  return [upper, lower, upper.replaceAll("%20", "+"), encodeURI(secret)];
}

/** The letters that stay the same wherever the value stands in a longer text, for each alignment. */
function base64Spellings(secret: string): string[] {
  const bytes = new TextEncoder().encode(secret);
  const stable = [0, 1, 2].map((shift) => {
    const shifted = new Uint8Array(shift + bytes.length);
    shifted.set(bytes, shift);
    const first = Math.ceil((shift * 8) / 6);
    const last = Math.floor(((shift + bytes.length) * 8) / 6);
    return toBase64(shifted).slice(first, last);
  });
  const whole = toBase64(bytes);
  const standard = [whole, whole.replaceAll("=", ""), ...stable];
  return standard.flatMap((text) => [text, text.replaceAll("+", "-").replaceAll("/", "_")]);
}

type Span = readonly [start: number, end: number];

/** Spans may overlap: one secret can contain another, and a rest would tell half of it. */
function withoutSpans(line: string, spans: Span[]): string {
  let text = "";
  let reached = 0;
  for (const [start, end] of spans.sort(([a], [b]) => a - b)) {
    if (start >= reached) text += line.slice(reached, start) + REDACTED;
    reached = Math.max(reached, end);
  }
  return text + line.slice(reached);
}
