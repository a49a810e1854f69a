// Programs of other packages, which this one starts and never imports.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";
import type { Invocation } from "./cli.ts";

/** A package's program lies beside or below its index, as `.ts` in a clone and as `.js` when built. */
export function programOf(packageName: string, program = "main"): string {
  const index = fileURLToPath(import.meta.resolve(packageName));
  return index.replace(/index(\.[a-z]+)$/, `${program}$1`);
}

export interface ProgramOptions {
  readonly program: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Handed every line of its stdout, which is otherwise ours. */
  readonly onLine?: (line: string) => void;
  /** A session of its own: a terminal's Ctrl-C reaches this program alone, which passes on one. */
  readonly detached?: boolean;
}

/** Runs it in the foreground, with our own streams; answers with what it ended with. */
export async function runProgram(invocation: Invocation, options: ProgramOptions): Promise<number> {
  const { program, args, environment, onLine, detached = false } = options;
  const isOwn = invocation.stdout === process.stdout && invocation.stderr === process.stderr;
  const child = spawn(process.execPath, [program, ...args], {
    cwd: invocation.directory,
    env: { ...environment },
    stdio: [
      isOwn && !detached ? "inherit" : "ignore",
      isOwn && !onLine ? "inherit" : "pipe",
      isOwn ? "inherit" : "pipe",
    ],
    detached,
  });
  const stop = () => void child.kill("SIGTERM");
  const kill = () => void child.kill("SIGKILL");
  invocation.signal.addEventListener("abort", stop);
  invocation.hurry.addEventListener("abort", kill);
  try {
    await once(child, "spawn");
    if (invocation.signal.aborted) stop();
    passOn(child, invocation, onLine);
    await once(child, "close");
    return codeOf(child);
  } finally {
    invocation.signal.removeEventListener("abort", stop);
    invocation.hurry.removeEventListener("abort", kill);
  }
}

function passOn(
  child: ChildProcess,
  { stdout, stderr }: Invocation,
  onLine: ProgramOptions["onLine"],
) {
  child.stderr?.on("data", (chunk: Buffer) => void stderr.write(chunk));
  if (!onLine) {
    child.stdout?.on("data", (chunk: Buffer) => void stdout.write(chunk));
    return;
  }
  let held = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    const lines = (held + text).split("\n");
    held = lines.pop() ?? "";
    for (const line of lines) onLine(line);
  });
}

function codeOf({ exitCode, signalCode }: ChildProcess): number {
  return exitCode ?? 128 + (signalCode ? constants.signals[signalCode] : 0);
}

const PASSED_ON =
  /^(PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|(HTTPS?|NO)_PROXY|https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS|EXCLAVE_LOG_LEVEL|EXCLAVE_INSECURE_HTTP|EXCLAVE_TEST_CLOCK)$/;

/** Programs see what they need: no token that happens to be in this shell. */
export function plainEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const passed = Object.entries(environment).filter(
    (entry): entry is [string, string] => PASSED_ON.test(entry[0]) && entry[1] !== undefined,
  );
  return Object.fromEntries(passed);
}
