// How answers are written: a table for people, JSON and YAML for programs, names for shell loops.

import { unreachable } from "@exclave/core";
import { stringify } from "yaml";

export const FORMATS = ["table", "json", "yaml", "name"] as const;
export type Format = (typeof FORMATS)[number];

export interface Answer {
  /** The documented value, as JSON and YAML show it. */
  readonly value: unknown;
  readonly text: () => string;
  readonly names: () => readonly string[];
}

export function render(answer: Answer, format: Format): string {
  switch (format) {
    case "json":
      return `${JSON.stringify(answer.value, null, 2)}\n`;
    case "yaml":
      return stringify(answer.value);
    case "name":
      return answer
        .names()
        .map((name) => `${name}\n`)
        .join("");
    case "table":
      return ensureNewline(answer.text());
    default:
      return unreachable(format);
  }
}

export interface Column<Item> {
  readonly header: string;
  readonly cell: (item: Item) => string;
}

/** Columns as wide as their widest cell; an empty list says so in words. */
export function table<Item>(
  items: readonly Item[],
  columns: readonly Column<Item>[],
  whenEmpty: string,
): string {
  if (items.length === 0) return whenEmpty;
  const rows = [
    columns.map(({ header }) => header),
    ...items.map((item) => columns.map(({ cell }) => oneLine(cell(item)))),
  ];
  const widths = columns.map((_, index) =>
    Math.max(...rows.map((row) => displayWidth(row[index] ?? ""))),
  );
  return rows
    .map((row) =>
      row
        .map((cell, i) => pad(cell, widths[i] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Pairs under each other, the values aligned; pairs without a value are left out. */
export function pairs(entries: readonly (readonly [string, string | undefined | null])[]): string {
  const shown = entries.filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  const width = Math.max(0, ...shown.map(([key]) => key.length));
  return shown.map(([key, value]) => `${key.padEnd(width)}  ${value}`).join("\n");
}

/** RFC 3339 as the API sends it, or milliseconds as the audit record has them. */
export function time(instant: string | number | null): string {
  return instant === null ? "-" : new Date(instant).toISOString().replace(/\.\d+Z$/, "Z");
}

/** Enough of a digest to tell it from others. */
export function shortDigest(digest: string | null): string {
  return digest === null ? "-" : digest.replace(/^(sha\d+:[0-9a-f]{12}).*$/, "$1");
}

/** Values from outside may hold line ends and terminal codes; of these only colours are let through. */
function oneLine(text: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  const CONTROL = /\u001B(?!\[[0-9;]*m)|[\u0000-\u001A\u001C-\u001F\u007F]/g;
  return text.replaceAll(/\s*\n\s*/g, " ⏎ ").replaceAll(CONTROL, "");
}

function pad(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - displayWidth(text)));
}

/** Width on a terminal: colour codes take no room. */
export function displayWidth(text: string): number {
  return Array.from(withoutColour(text)).length;
}

export function withoutColour(text: string): string {
  // oxlint-disable-next-line no-control-regex -- the escape character is what is looked for
  return text.replaceAll(/\u001B\[[0-9;]*m/g, "");
}

function ensureNewline(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}
