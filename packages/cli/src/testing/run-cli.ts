// One command line, run in this process against a temporary home.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import type { TestContext } from "node:test";
import { runCli } from "../program/program.ts";
import type { ApiDouble } from "./api-double.ts";

export interface Ran {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Bench {
  readonly home: string;
  readonly directory: string;
  run(argv: readonly string[], options?: RunOptions): Promise<Ran>;
}

export interface RunOptions {
  readonly environment?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  readonly isTTY?: boolean;
  readonly signal?: AbortSignal;
  /** Told of what is printed while the command still runs. */
  readonly onStdout?: (text: string) => void;
}

export async function createBench(t: TestContext, double?: ApiDouble): Promise<Bench> {
  const root = await mkdtemp(join(tmpdir(), "exclave-cli-"));
  t.after(() => rm(root, { recursive: true, force: true }));
  const home = join(root, "home");
  const reach = double ? { EXCLAVE_SERVER: double.url, EXCLAVE_TOKEN: double.token } : {};
  return { home, directory: root, run };

  async function run(argv: readonly string[], options: RunOptions = {}): Promise<Ran> {
    const output = { stdout: "", stderr: "" };
    const screen = (name: "stdout" | "stderr") => ({
      isTTY: options.isTTY ?? false,
      columns: 120,
      rows: 40,
      write: (text: string | Uint8Array) => {
        const written = typeof text === "string" ? text : Buffer.from(text).toString("utf8");
        output[name] += written;
        if (name === "stdout") options.onStdout?.(written);
      },
    });
    const exitCode = await runCli(argv, {
      environment: { EXCLAVE_HOME: home, ...reach, ...options.environment },
      directory: root,
      stdin: Object.assign(Readable.from([options.stdin ?? ""]), { isTTY: options.isTTY ?? false }),
      stdout: screen("stdout"),
      stderr: screen("stderr"),
      signal: options.signal ?? new AbortController().signal,
      hurry: new AbortController().signal,
      now: Date.now,
    });
    return { exitCode, ...output };
  }
}
