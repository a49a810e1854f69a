// Runs one operation of a plugin in this process, for the plugin's own tests: real directories, real
// programs, and the lines it wrote as values.

import { mkdir, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JobLine, PluginOperation } from "@exclave/core";
import type { Plugin } from "../define-plugin.ts";
import { type OperationOutcome, runOperation } from "../run-operation.ts";

export interface TestContextOptions {
  readonly config?: Readonly<Record<string, unknown>>;
  readonly parameters?: Readonly<Record<string, unknown>>;
  /** Source for a build, the unpacked artifact for everything else; an empty directory if absent. */
  readonly files?: string;
  readonly layout?: string;
  readonly artifact?: { readonly repository: string; readonly digest: string };
  readonly registryUrl?: string;
  /** Give one to carry state from one operation to the next. */
  readonly stateDirectory?: string;
  readonly runDirectory?: string;
  readonly workDirectory?: string;
  readonly component?: string;
  readonly install?: string;
  readonly installId?: string;
  readonly job?: string;
  readonly attempt?: number;
  readonly signal?: AbortSignal;
  /** Called with each line as it is written, for tests that act while an operation runs. */
  readonly onLine?: (line: JobLine) => void;
}

export interface TestContext {
  /** All directories below one, for the test to remove. */
  readonly directory: string;
  readonly stateDirectory: string;
  readonly runDirectory: string;
  readonly workDirectory: string;
  readonly files: string;
  readonly run: (operation: PluginOperation, overrides?: TestContextOptions) => Promise<TestRun>;
}

export interface TestRun extends OperationOutcome {
  readonly lines: readonly JobLine[];
  /** The messages of its log lines, in order. */
  readonly logs: readonly string[];
  /** The outputs it wrote, by name. */
  readonly outputs: Readonly<Record<string, unknown>>;
}

export async function createTestContext(
  plugin: Plugin,
  options: TestContextOptions = {},
): Promise<TestContext> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-plugin-"));
  const place = async (name: string, given: string | undefined) => {
    const path = given ?? join(directory, name);
    await mkdir(path, { recursive: true });
    return path;
  };
  const places = {
    stateDirectory: await place("state", options.stateDirectory),
    runDirectory: await place("run", options.runDirectory),
    workDirectory: await place("work", options.workDirectory),
    files: await place("files", options.files),
  };

  return { directory, ...places, run };

  async function run(
    operation: PluginOperation,
    overrides: TestContextOptions = {},
  ): Promise<TestRun> {
    const { onLine, ...given } = { ...options, ...overrides };
    const lines: JobLine[] = [];
    const outcome = await runOperation(plugin, operation, {
      config: {},
      parameters: {},
      install: "test",
      installId: "iaaaaaaaaaaaaaaaa",
      app: "test",
      component: "component",
      job: "jaaaaaaaaaaaaaaaa",
      attempt: 1,
      signal: new AbortController().signal,
      ...given,
      ...places,
      ...(overrides.files !== undefined && { files: overrides.files }),
      environment: { PATH: process.env.PATH ?? "", HOME: places.workDirectory, TMPDIR: tmpdir() },
      forwardStop: true,
      write: (line) => {
        lines.push(line);
        onLine?.(line);
      },
    });
    return { ...outcome, lines, logs: logsOf(lines), outputs: outputsOf(lines) };
  }
}

function logsOf(lines: readonly JobLine[]): string[] {
  return lines.flatMap((line) => (line.type === "log" ? [line.message] : []));
}

function outputsOf(lines: readonly JobLine[]): Record<string, unknown> {
  return Object.fromEntries(
    lines.flatMap((line) => (line.type === "output" ? [[line.name, line.value]] : [])),
  );
}
