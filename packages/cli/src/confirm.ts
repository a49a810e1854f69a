// A person at a terminal is asked once before something is taken away; a script is not.

import { createInterface } from "node:readline/promises";
import { PassThrough } from "node:stream";
import type { Cli } from "./cli.ts";
import { CliProblem } from "./problem.ts";

export async function confirmByName(cli: Cli, name: string, warning: string): Promise<void> {
  const { stdin, stderr, signal } = cli.world;
  if ((stdin as { isTTY?: boolean }).isTTY !== true) return;
  stderr.write(`${warning}\nType ${name} to go on: `);
  const lines = createInterface({ input: stdin, output: new PassThrough() });
  try {
    const answer = await lines.question("", { signal });
    if (answer.trim() === name) return;
    throw new CliProblem("usage", "nothing was done", { hint: "--yes goes on without asking" });
  } finally {
    lines.close();
  }
}
