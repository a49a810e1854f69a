// The context an operation is handed, made real: what it says becomes lines, what it writes lands in
// the job's own directory, what it runs sees only what it was given.

import { chmod, mkdir, writeFile } from "node:fs/promises";
import { dirname, join, normalize, sep } from "node:path";
import { Failure, type JobLine } from "@exclave/core";
import type { OperationContext } from "./define-plugin.ts";
import { runProgram } from "./run-program.ts";

/** Everything a context knows; the rest it can do. */
export type ContextFacts<Config> = Omit<
  OperationContext<Config>,
  "log" | "progress" | "resource" | "output" | "writeFile" | "run"
>;

export interface ContextOptions<Config> extends ContextFacts<Config> {
  readonly write: (line: JobLine) => void;
  /** What every program the plugin runs sees, beside what it is given. */
  readonly environment: Readonly<Record<string, string>>;
  /** See ProgramHost. */
  readonly forwardStop: boolean;
}

export function createOperationContext<Config>(
  options: ContextOptions<Config>,
): OperationContext<Config> {
  const { write, environment, forwardStop, ...facts } = options;

  return {
    ...facts,
    log: (message, level = "info") => write({ type: "log", level, message }),
    progress: (message, done, total) =>
      write({
        type: "progress",
        message,
        ...(done !== undefined && { done }),
        ...(total !== undefined && { total }),
      }),
    resource: (action, kind, name) => write({ type: "resource", action, kind, name }),
    output: (name, value, { sensitive = false } = {}) =>
      write({ type: "output", name, value, sensitive }),
    writeFile: (name, content) => writePrivateFile(facts.workDirectory, name, content),
    run: (program, args, runOptions = {}) =>
      runProgram(program, args, runOptions, {
        cwd: facts.workDirectory,
        environment,
        signal: facts.signal,
        forwardStop,
        onLine: runOptions.onLine ?? ((message) => write({ type: "log", level: "info", message })),
      }),
  };
}

async function writePrivateFile(directory: string, name: string, content: string): Promise<string> {
  const relative = normalize(name);
  if (relative.startsWith(sep) || relative === ".." || relative.startsWith(`..${sep}`)) {
    throw new Failure("invalid", `${JSON.stringify(name)} is outside the job's own directory`);
  }
  const path = join(directory, relative);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFile(path, content, { mode: 0o600 });
  // The mode above holds for new files only.
  await chmod(path, 0o600);
  return path;
}
