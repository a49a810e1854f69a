// The build most plugins need: run a command in the source if there is one, then keep the directory
// or the parts of it that were named.

import { cp, mkdir, stat } from "node:fs/promises";
import { dirname, join, normalize, sep } from "node:path";
import { Failure } from "@exclave/core";
import type { BuildResult, OperationContext } from "./define-plugin.ts";

export interface SourceBuild {
  /** A program and its arguments, run in the source. */
  readonly command?: readonly string[] | undefined;
  readonly environment?: Readonly<Record<string, string>>;
  /** Paths in the source that are kept; all of it unless given. */
  readonly include?: readonly string[] | undefined;
  readonly timeoutMs?: number;
}

export async function buildFromSource(
  context: OperationContext<unknown>,
  { command, environment = {}, include, timeoutMs }: SourceBuild,
): Promise<BuildResult> {
  if (command) {
    const [program, ...args] = resolveCommand(command);
    await context.run(program, args, {
      cwd: context.files,
      environment,
      ...(timeoutMs !== undefined && { timeoutMs }),
    });
  }
  if (!include) return { kind: "files", directory: context.files };

  const directory = join(context.workDirectory, "included");
  await mkdir(directory, { recursive: true });
  for (const path of include) await keep(context.files, directory, path);
  return { kind: "files", directory };
}

/** A command that starts with `node` runs the Node this plugin runs on: no other need be there. */
export function resolveCommand(command: readonly string[]): [string, ...string[]] {
  const [program = "", ...args] = command;
  return [program === "node" ? process.execPath : program, ...args];
}

async function keep(from: string, to: string, path: string): Promise<void> {
  const relative = normalize(path);
  if (relative.startsWith(sep) || relative.split(sep).includes("..")) {
    throw new Failure("invalid", `include: ${JSON.stringify(path)} is outside the source`);
  }
  if (!(await stat(join(from, relative)).catch(() => undefined))) {
    throw new Failure("invalid", `include: there is no ${JSON.stringify(path)} after the build`);
  }
  await mkdir(dirname(join(to, relative)), { recursive: true });
  await cp(join(from, relative), join(to, relative), { recursive: true, verbatimSymlinks: true });
}
