// Keeps the figures of a whole run in the README, with the day they are from.

import { readFile, writeFile } from "node:fs/promises";
import { cpus, loadavg } from "node:os";
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
  const machine = `${cpus().length} × ${cpu?.model ?? "unknown"}`;
  // Our own programs keep a core or two busy; much more than that was somebody else's.
  const load = `load average over the last 15 minutes ${loadavg()[2]?.toFixed(1)}`;
  return [
    `${at.toISOString().slice(0, 10)}, ${machine}, ${load}, \`${command}\`:`,
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
