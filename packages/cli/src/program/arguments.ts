// Values on the command line, read once: durations, counts, and `name=value` pairs.

import { InvalidArgumentError, Option } from "commander";

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `90s`, `10m`, `1h30m`; in milliseconds. */
export function durationMs(text: string): number {
  const parts = [...text.matchAll(/(\d+)(ms|s|m|h|d)/g)];
  const total = parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ""] ?? 0),
    0,
  );
  if (parts.map(([part]) => part).join("") !== text || total === 0) {
    throw new InvalidArgumentError("Write a duration such as 90s, 10m or 1h30m.");
  }
  return total;
}

/** An option that takes a duration, its default shown as people write it. */
export function durationOption(flags: string, description: string, usual: string): Option {
  return new Option(flags, description).argParser(durationMs).default(durationMs(usual), usual);
}

export function count(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("Write a whole number.");
  return Number(text);
}

export function portNumber(text: string): number {
  const port = count(text);
  if (port < 1 || port > 65_535) throw new InvalidArgumentError("A port is between 1 and 65535.");
  return port;
}

/** Collects a repeatable option. */
export function repeated(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}

/** Collects comma-separated names of a repeatable option. */
export function names(text: string, before: readonly string[] = []): string[] {
  return [
    ...before,
    ...text
      .split(",")
      .map((name) => name.trim())
      .filter((name) => name !== ""),
  ];
}

/** Collects `name=value`, as text: what it is, the app's declaration says, which the server has. */
export function inputs(
  text: string,
  before: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Write name=value.");
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

export function durationText(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  if (ms < 1_000) return `${ms} ms`;
  if (seconds < 60) return `${seconds} s`;
  return seconds % 60 === 0
    ? `${seconds / 60} min`
    : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
