// The program: the only file here that reads the command line and the environment.

import type { Invocation } from "./program/cli.ts";
import { runCli } from "./program/program.ts";

/** One Ctrl-C may arrive twice: from the terminal, and passed on by npm. */
const ECHO_MS = 1_000;

const first = new AbortController();
const second = new AbortController();
let firstAt = 0;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => {
    if (!first.signal.aborted) firstAt = Date.now();
    else if (Date.now() - firstAt > ECHO_MS) second.abort();
    first.abort();
  });
}
// A reader that went away (`exclave … | head`) is no failure.
process.stdout.on("error", (reason: NodeJS.ErrnoException) => {
  if (reason.code === "EPIPE") process.exit(0);
  throw reason;
});

const invocation: Invocation = {
  environment: process.env,
  directory: process.cwd(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: first.signal,
  hurry: second.signal,
  now: Date.now,
};

process.exitCode = await runCli(process.argv.slice(2), invocation);
