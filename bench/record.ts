// Keeps the figures of a whole run in the README, with the day they are from.

import { readFile, writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { join } from "node:path";
import type { Figure } from "./figure.ts";

const README = join(import.meta.dirname, "README.md");
const HEADING = "## Figures\n";

export async function recordFigures(figures: readonly Figure[], command: string): Promise<void> {
  const text = await readFile(README, "utf8");
  const before = text.slice(0, text.indexOf(HEADING) + HEADING.length);
  await writeFile(README, `${before}\n${renderFigures(figures, command, new Date())}`);
}

function renderFigures(figures: readonly Figure[], command: string, at: Date): string {
  const [cpu] = cpus();
  const rows = figures.map(({ figure, value, unit, beside }) => {
    const { goal = "", isMet, ...rest } = beside;
    const shown = Object.entries(rest).map(([name, entry]) => `${name}: ${show(entry)}`);
    const mark = isMet === false ? " (missed)" : "";
    return `| ${figure} | ${value} | ${unit} | ${String(goal)}${mark} | ${shown.join("; ")} |`;
  });
  return [
    `${at.toISOString().slice(0, 10)}, ${cpus().length} × ${cpu?.model ?? "unknown"}, \`${command}\`:`,
    "",
    "| figure | value | unit | goal | beside |",
    "| --- | --- | --- | --- | --- |",
    ...rows,
    "",
  ].join("\n");
}

function show(entry: unknown): string {
  if (typeof entry !== "object" || entry === null) return String(entry);
  return Object.entries(entry)
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(", ");
}
