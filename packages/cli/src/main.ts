// The program: the only file here that reads the command line and the environment.

import type { World } from "./cli.ts";
import { runCli } from "./program.ts";

const first = new AbortController();
const second = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => (first.signal.aborted ? second : first).abort());
}
// A reader that went away (`exclave … | head`) is no failure.
process.stdout.on("error", (reason: NodeJS.ErrnoException) => {
  if (reason.code === "EPIPE") process.exit(0);
  throw reason;
});

const world: World = {
  environment: process.env,
  directory: process.cwd(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: first.signal,
  hurry: second.signal,
  now: Date.now,
};

process.exitCode = await runCli(process.argv.slice(2), world);
