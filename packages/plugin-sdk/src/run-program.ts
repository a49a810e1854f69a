// Runs another program for a plugin: arguments are a list, the environment is what is given, and
// what it prints is seen line by line while it runs.

import { type ChildProcess, spawn } from "node:child_process";
import { stat } from "node:fs/promises";
import {
  beginningOf,
  createLineSplitter,
  Failure,
  LINE_BYTES_MAX,
  type SplitLine,
} from "@exclave/core";
import type { RunOptions, RunResult } from "./define-plugin.ts";
import { killedFailure, type ProgramEnd, watchProgram } from "./program-end.ts";

export interface ProgramHost {
  readonly cwd: string;
  /** What every program sees: where programs are found, a home and a place for temporary files. */
  readonly environment: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** False where a stop already reaches every process of the job: a second signal means "now". */
  readonly forwardStop: boolean;
  readonly onLine: (line: string, stream: "stdout" | "stderr") => void;
}

/**
 * Output is kept whole for the caller, up to here. Beyond it a program whose output is wanted as a
 * value is stopped; one that only logs goes on, and the log has a limit of its own.
 */
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

interface Ended extends RunResult, ProgramEnd {
  readonly lastLine: string | undefined;
}

async function collect(
  child: ChildProcess,
  options: RunOptions,
  host: ProgramHost,
): Promise<Ended> {
  const watched = watchProgram(child, {
    onOutputCut: () =>
      host.onLine("a process that was left behind still holds the output", "stderr"),
  });
  const stdout = readStream(child, "stdout", options, host);
  const stderr = readStream(child, "stderr", options, host);
  // A program that ends without reading its input is no failure of its own.
  child.stdin?.on("error", () => undefined);
  child.stdin?.end(options.input ?? "");

  const end = await watched.ended;
  const [out, err] = [stdout.finish(), stderr.finish()];
  const isValue = options.echo === false;
  if (isValue && (out.isCut || err.isCut)) {
    const mebibytes = OUTPUT_BYTES_MAX / 1024 ** 2;
    throw new Failure("too_large", `${child.spawnfile} printed more than ${mebibytes} MiB`);
  }
  return {
    ...end,
    exitCode: end.code ?? 128,
    stdout: out.text,
    stderr: err.text,
    lastLine: err.lastLine ?? out.lastLine,
  };
}

interface ReadStream {
  readonly text: string;
  readonly isCut: boolean;
  readonly lastLine: string | undefined;
}

function readStream(
  child: ChildProcess,
  name: "stdout" | "stderr",
  { echo }: RunOptions,
  host: ProgramHost,
) {
  const splitter = createLineSplitter(LINE_BYTES_MAX);
  const kept: Buffer[] = [];
  let keptBytes = 0;
  let isCut = false;
  let lastLine: string | undefined;

  child[name]?.on("data", (chunk: Buffer) => {
    if (keptBytes + chunk.length <= OUTPUT_BYTES_MAX && !isCut) {
      kept.push(chunk);
      keptBytes += chunk.length;
    } else {
      isCut = true;
      if (echo === false) child.kill("SIGKILL");
    }
    for (const line of splitter.read(chunk)) take(line);
  });

  return { finish };

  function take({ bytes, leftOutBytes }: SplitLine): void {
    const text = Buffer.from(bytes).toString("utf8");
    lastLine = text.slice(0, LAST_LINE_CHARS).trim() || lastLine;
    if (echo === false) return;
    const size = bytes.length + leftOutBytes;
    host.onLine(leftOutBytes > 0 ? beginningOf(text, size) : text, name);
  }

  function finish(): ReadStream {
    const rest = splitter.end();
    if (rest) take(rest);
    return { text: Buffer.concat(kept).toString("utf8"), isCut, lastLine };
  }
}

/** Of the sentence a failure carries. */
const LAST_LINE_CHARS = 4_096;

function programFailed(program: string, ended: Ended): Failure {
  const { exitCode, signal, lastLine: last } = ended;
  const killed = killedFailure(program, ended);
  if (killed) return killed;
  const how = signal ? `was ended by ${signal}` : `exited with ${exitCode}`;
  return new Failure("tool", `${program} ${how}${last ? `: ${last}` : ""}`, {
    details: { exitCode, ...(signal && { signal }) },
  });
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
