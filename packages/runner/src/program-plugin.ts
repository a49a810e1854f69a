// Runs a plugin that is a program in any language. It is told where things are by its environment,
// reads job.json or the small files made from it, and speaks in JSON lines; anything else it prints
// is log text. docs/specs/plugin-v1.md is the contract from its author's side.

import { spawn } from "node:child_process";
import { mkdir, stat, writeFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import type { Readable } from "node:stream";
import {
  beginningOf,
  createLineSplitter,
  Failure,
  type JobLine,
  LINE_BYTES_MAX,
  mayBeMessage,
  parseJobLine,
  ResultLine,
  Risk,
  type SplitLine,
} from "@exclave/core";
import {
  killedFailure,
  type ProgramEnd,
  type ProgramPlugin,
  watchProgram,
} from "@exclave/plugin-sdk";
import { z } from "zod";

export interface ProgramOptions {
  readonly plugin: ProgramPlugin;
  /** Where plugin.json lies; the program is found from here. */
  readonly directory: string;
  readonly operation: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly jobDirectory: string;
  readonly stateDirectory: string;
  readonly runDirectory: string;
  readonly workDirectory: string;
  readonly files: string;
  readonly layout?: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  readonly forwardStop: boolean;
  readonly write: (line: JobLine) => void;
}

/** As ResultLine, but a program need not hash its plan: the runner does. */
const ProgramResult = ResultLine.omit({ plan: true }).extend({
  plan: z.object({ risk: Risk, summary: z.string() }).optional(),
});
export type ProgramResult = z.infer<typeof ProgramResult>;

/** What the program leaves behind in its work directory, beside what it says. */
export const BUILD_DIRECTORY = "build";
export const PLAN_FILE = "plan";

export async function runProgramPlugin(options: ProgramOptions): Promise<ProgramResult> {
  const { plugin, operation, directory, workDirectory, write } = options;
  if (!(operation in plugin.operations)) {
    const offered = Object.keys(plugin.operations).join(", ");
    throw new Failure(
      "invalid",
      `the plugin ${plugin.type} has no ${operation}; it offers ${offered}`,
    );
  }
  const configDirectory = await writeValues(join(workDirectory, ".config"), options.config);
  const parametersDirectory = await writeValues(
    join(workDirectory, ".parameters"),
    options.parameters,
  );

  const [program = "", ...args] = plugin.run;
  const path = isAbsolute(program) || !program.includes("/") ? program : join(directory, program);
  const child = spawn(path, args, {
    cwd: workDirectory,
    env: {
      // The image it lies in is read-only, and checked before each job.
      PYTHONDONTWRITEBYTECODE: "1",
      ...options.environment,
      EXCLAVE_JOB_DIR: options.jobDirectory,
      EXCLAVE_STATE_DIR: options.stateDirectory,
      EXCLAVE_RUN_DIR: options.runDirectory,
      EXCLAVE_OPERATION: operation,
      EXCLAVE_PLUGIN_DIR: directory,
      EXCLAVE_FILES: options.files,
      ...(options.layout !== undefined && { EXCLAVE_LAYOUT: options.layout }),
      EXCLAVE_WORK_DIR: workDirectory,
      EXCLAVE_CONFIG_DIR: configDirectory,
      EXCLAVE_PARAMETERS_DIR: parametersDirectory,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const stop = () => {
    if (options.forwardStop) child.kill("SIGTERM");
  };
  options.signal.addEventListener("abort", stop, { once: true });
  if (options.signal.aborted) stop();

  const said = hear(child.stdout, child.stderr, write);
  const { ended } = watchProgram(child, {
    onOutputCut: () =>
      warn(write, "a process the plugin left behind still holds its output; it is not read on"),
  });
  try {
    const end = await ended;
    return judge(plugin, operation, said.finish(), end);
  } catch (cause) {
    if (cause instanceof Failure) throw cause;
    const reason = (cause as NodeJS.ErrnoException).code ?? String(cause);
    throw new Failure("plugin", `cannot run ${program} of the plugin ${plugin.type}: ${reason}`, {
      cause,
    });
  } finally {
    options.signal.removeEventListener("abort", stop);
  }
}

interface Said {
  readonly result: ProgramResult | undefined;
  /** Why a message of it cannot count. */
  readonly refused: string | undefined;
}

function hear(stdout: Readable, stderr: Readable, write: (line: JobLine) => void) {
  let result: ProgramResult | undefined;
  let refused: string | undefined;
  const finish = [readLines(stdout, takeOutput), readLines(stderr, takeError)];

  return {
    finish(): Said {
      for (const end of finish) end();
      return { result, refused };
    },
  };

  function takeOutput(split: SplitLine): void {
    const text = textOf(split);
    if (split.leftOutBytes > 0 && mayBeMessage(text)) {
      const size = split.bytes.length + split.leftOutBytes;
      refused ??= `said a message of ${size} bytes, which may have ${LINE_BYTES_MAX}`;
      return;
    }
    const line = split.leftOutBytes > 0 ? cutLine(split) : readLine(text);
    if (line.type !== "result") write(line);
    else if (result) warn(write, "a second result was ignored");
    else result = line;
  }

  function takeError(split: SplitLine): void {
    if (split.leftOutBytes > 0) write(cutLine(split));
    else write({ type: "log", level: "info", message: textOf(split) });
  }
}

/** Hands on each line as it comes; what it gives back takes the last one, once there is no more. */
function readLines(stream: Readable, take: (line: SplitLine) => void): () => void {
  const splitter = createLineSplitter(LINE_BYTES_MAX);
  stream.on("data", (chunk: Buffer) => {
    for (const line of splitter.read(chunk)) take(line);
  });
  return () => {
    const last = splitter.end();
    if (last) take(last);
  };
}

function textOf({ bytes }: SplitLine): string {
  return Buffer.from(bytes).toString("utf8").replace(/\r$/, "");
}

function cutLine(split: SplitLine): Exclude<JobLine, ResultLine> {
  const message = beginningOf(textOf(split), split.bytes.length + split.leftOutBytes);
  return { type: "log", level: "info", message };
}

function warn(write: (line: JobLine) => void, message: string): void {
  write({ type: "log", level: "warn", message });
}

function readLine(text: string): Exclude<JobLine, ResultLine> | ProgramResult {
  if (text.startsWith("{")) {
    try {
      const result = ProgramResult.safeParse(JSON.parse(text));
      if (result.success) return result.data;
    } catch {
      return { type: "log", level: "info", message: text };
    }
    const line = parseJobLine(text);
    // What was built is for the runner to say: a program's output carries what compilers print.
    if (line && line.type !== "result" && line.type !== "artifact") return line;
  }
  return { type: "log", level: "info", message: text };
}

/** The exit code has the last word: a program that says it did well and then fails did not. */
function judge(
  plugin: ProgramPlugin,
  operation: string,
  { result, refused }: Said,
  end: ProgramEnd,
): ProgramResult {
  const { code, signal } = end;
  if (code !== 0 && (!result || result.ok)) {
    const killed = killedFailure(`the plugin ${plugin.type}`, end);
    if (killed) throw killed;
    const how = signal ? `was ended by ${signal}` : `exited with ${code}`;
    throw new Failure("plugin", `the plugin ${plugin.type} ${how} during ${operation}`);
  }
  if (refused !== undefined && (!result || result.ok)) {
    throw new Failure("too_large", `the plugin ${plugin.type} ${refused}`);
  }
  if (result) return result;
  const healthy = { health: "healthy", because: "the plugin's status ended well" } as const;
  return { type: "result", ok: true, ...(operation === "status" && healthy) };
}

/**
 * One file per key, so that a shell script needs no JSON parser: text as it is, everything else as
 * JSON. Keys that would not make a plain file name are in job.json only.
 */
async function writeValues(
  directory: string,
  values: Readonly<Record<string, unknown>>,
): Promise<string> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined || !/^[A-Za-z0-9_][A-Za-z0-9_.-]*$/.test(key)) continue;
    const text = typeof value === "string" ? value : JSON.stringify(value);
    await writeFile(join(directory, key), text, { mode: 0o600 });
  }
  return directory;
}

/** What the program built: a directory it leaves in its work directory. */
export async function builtDirectory(workDirectory: string): Promise<string> {
  const directory = join(workDirectory, BUILD_DIRECTORY);
  const found = await stat(directory).catch(() => undefined);
  if (found?.isDirectory()) return directory;
  throw new Failure("plugin", `the build left nothing in $EXCLAVE_WORK_DIR/${BUILD_DIRECTORY}`);
}
