// Takes known secret values out of text before it leaves the install, in every spelling a program
// is likely to print: as it is, inside JSON, inside a URL, in base64 (also in the middle of a longer
// base64 text, as in a basic-auth header), and each line of a value of several lines.

import { toBase64 } from "./base64.ts";

export const REDACTED = "[redacted]";

/** A shorter value would take half of all words out of a log, and is no secret worth the name. */
const LENGTH_MIN = 6;

export function createRedactor(secrets: Iterable<string>): (line: string) => string {
  const needles = [...new Set([...secrets].flatMap(spellings))];

  return (line) => {
    const hits = needles.flatMap((needle) => occurrences(line, needle));
    return hits.length === 0 ? line : withoutSpans(line, hits);
  };
}

export function redact(line: string, secrets: Iterable<string>): string {
  return createRedactor(secrets)(line);
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

function occurrences(line: string, needle: string): Span[] {
  const spans: Span[] = [];
  for (let at = line.indexOf(needle); at >= 0; at = line.indexOf(needle, at + 1)) {
    spans.push([at, at + needle.length]);
  }
  return spans;
}

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
