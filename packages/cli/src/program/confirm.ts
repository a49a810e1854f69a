// Before something is taken away somebody says so: a person at a terminal by typing its name, a
// script by --yes. A script that forgot is not taken for one that meant it.

import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import { PassThrough } from "node:stream";
import type { Cli } from "./cli.ts";
import { CliProblem } from "./problem.ts";

export async function confirmByName(cli: Cli, name: string, warning: string): Promise<void> {
  const { stdin, stderr, signal } = cli.invocation;
  if ((stdin as { isTTY?: boolean }).isTTY !== true) throw nothingDone();
  stderr.write(`${warning}\nType ${name} to go on: `);
  const lines = createInterface({ input: stdin, output: new PassThrough() });
  try {
    // Ctrl-D closes without an answer, and a question alone would wait for one for ever.
    const closed = once(lines, "close").then(() => "");
    const answer = await Promise.race([lines.question("", { signal }), closed]);
    if (answer.trim() === name) return;
    throw nothingDone();
  } finally {
    lines.close();
  }
}

function nothingDone(): CliProblem {
  return new CliProblem("usage", "nothing was done; --yes goes on without asking");
}
