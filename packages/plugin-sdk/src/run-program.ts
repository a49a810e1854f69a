// Runs another program for a plugin: arguments are a list, the environment is what is given, and
// what it prints is seen line by line while it runs.

import { type ChildProcess, spawn } from "node:child_process";
import { stat } from "node:fs/promises";
import { StringDecoder } from "node:string_decoder";
import { Failure } from "@exclave/core";
import type { RunOptions, RunResult } from "./define-plugin.ts";

export interface ProgramHost {
  readonly cwd: string;
  /** What every program sees: where programs are found, a home and a place for temporary files. */
  readonly environment: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** False where a stop already reaches every process of the job: a second signal means "now". */
  readonly forwardStop: boolean;
  readonly onLine: (line: string, stream: "stdout" | "stderr") => void;
}

/** Output is kept whole for the caller, up to here; beyond it the program is stopped. */
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;

export async function runProgram(
  program: string,
  args: readonly string[],
  options: RunOptions,
  host: ProgramHost,
): Promise<RunResult> {
  if (host.signal.aborted) throw new Failure("cancelled", `stopped before ${program} was started`);
  const cwd = options.cwd ?? host.cwd;
  const child = spawn(program, [...args], {
    cwd,
    env: { ...host.environment, ...options.environment },
    stdio: ["pipe", "pipe", "pipe"],
  });
  if (child.pid !== undefined) options.onStart?.(child.pid);
  const stop = () => {
    if (host.forwardStop) child.kill(options.stopSignal ?? "SIGTERM");
  };
  host.signal.addEventListener("abort", stop, { once: true });
  const limit = createTimeLimit(child, options);
  try {
    const result = await collect(child, options, host);
    const allowed = options.allowExitCodes ?? [0];
    if (host.signal.aborted) throw new Failure("cancelled", `stopped while ${program} was at work`);
    if (limit.isOver()) {
      throw new Failure("timeout", `${program} was not done after ${options.timeoutMs} ms`);
    }
    if (allowed !== "any" && !allowed.includes(result.exitCode)) {
      throw programFailed(program, result);
    }
    return { exitCode: result.exitCode, stdout: result.stdout, stderr: result.stderr };
  } catch (reason) {
    throw (await startFailure(reason, program, cwd)) ?? reason;
  } finally {
    limit.clear();
    host.signal.removeEventListener("abort", stop);
  }
}

/** How long a program has to end by itself once it was told that its time is over. */
const GRACE_MS = 5_000;

function createTimeLimit(child: ChildProcess, { timeoutMs, stopSignal = "SIGTERM" }: RunOptions) {
  let over = false;
  let timer: NodeJS.Timeout | undefined;
  if (timeoutMs !== undefined) {
    timer = setTimeout(() => {
      over = true;
      child.kill(stopSignal);
      timer = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
    }, timeoutMs);
  }
  return { isOver: () => over, clear: () => clearTimeout(timer) };
}

interface Ended extends RunResult {
  readonly signal: NodeJS.Signals | null;
}

function collect(child: ChildProcess, options: RunOptions, host: ProgramHost): Promise<Ended> {
  const { promise, resolve, reject } = Promise.withResolvers<Ended>();
  const kept = { stdout: [] as string[], stderr: [] as string[] };
  let bytes = 0;
  let tooLarge: Failure | undefined;

  for (const name of ["stdout", "stderr"] as const) {
    const decoder = new StringDecoder("utf8");
    let rest = "";
    const take = (text: string) => {
      kept[name].push(text);
      if (options.echo === false) return;
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) host.onLine(line, name);
    };
    child[name]?.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > OUTPUT_BYTES_MAX) {
        tooLarge ??= new Failure("too_large", `${child.spawnfile} printed more than 64 MiB`);
        child.kill("SIGKILL");
        return;
      }
      take(decoder.write(chunk));
    });
    child[name]?.on("end", () => {
      take(decoder.end());
      if (rest !== "") host.onLine(rest, name);
    });
  }
  child.on("error", reject);
  child.on("close", (code, signal) => {
    if (tooLarge) return reject(tooLarge);
    const stdout = kept.stdout.join("");
    const stderr = kept.stderr.join("");
    resolve({ exitCode: code ?? 128, signal, stdout, stderr });
  });
  // A program that ends without reading its input is no failure of its own.
  child.stdin?.on("error", () => undefined);
  child.stdin?.end(options.input ?? "");
  return promise;
}

function programFailed(program: string, { exitCode, signal, stdout, stderr }: Ended): Failure {
  const how = signal ? `was ended by ${signal}` : `exited with ${exitCode}`;
  const last = lastLine(stderr) ?? lastLine(stdout);
  return new Failure("tool", `${program} ${how}${last ? `: ${last}` : ""}`, {
    details: { exitCode, ...(signal && { signal }) },
  });
}

function lastLine(text: string): string | undefined {
  return text.trimEnd().split("\n").at(-1)?.trim() || undefined;
}

/** A missing program and a missing directory look alike to spawn; people want to know which. */
async function startFailure(
  reason: unknown,
  program: string,
  cwd: string,
): Promise<Failure | undefined> {
  const code = (reason as NodeJS.ErrnoException).code;
  if (reason instanceof Failure || code === undefined) return undefined;
  if (code === "ENOENT" || code === "ENOTDIR") {
    const isDirectory = await stat(cwd).then(
      (found) => found.isDirectory(),
      () => false,
    );
    const message = isDirectory
      ? `there is no program ${JSON.stringify(program)} to run`
      : `there is no directory ${JSON.stringify(cwd)} to run ${program} in`;
    return new Failure("invalid", message, { cause: reason });
  }
  return new Failure("invalid", `cannot run ${program}: ${code}`, { cause: reason });
}
