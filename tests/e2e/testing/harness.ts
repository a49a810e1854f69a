// What the end-to-end tests stand on: a whole Exclave in a directory of its own, driven through the
// command line as a person would, and looked at through the files and processes it leaves.

import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { InstallView, JobView } from "@exclave/api";

export const ROOT = join(import.meta.dirname, "../../..");
const EXCLAVE = join(ROOT, "packages/cli/bin/exclave.js");

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface World {
  readonly home: string;
  /** A directory beside the home, for apps and for side effects that are counted. */
  readonly place: string;
  /** Runs the command line; fails the test when it does not exit with 0. */
  exclave(...args: readonly string[]): Promise<string>;
  /** Runs the command line and hands back whatever came of it. */
  attempt(...args: readonly string[]): Promise<CommandResult>;
  /** The same, run in that directory. */
  attemptIn(directory: string, ...args: readonly string[]): Promise<CommandResult>;
  /** The same, with another environment. */
  attemptWith(environment: NodeJS.ProcessEnv, ...args: readonly string[]): Promise<CommandResult>;
  json<Value>(...args: readonly string[]): Promise<Value>;
  install(name: string): Promise<InstallView>;
  jobs(...args: readonly string[]): Promise<JobView[]>;
  up(...args: readonly string[]): Promise<void>;
  /** Ctrl-C; returns when it has ended. */
  down(signal?: NodeJS.Signals): Promise<number | null>;
  upOutput(): string;
  /** Process ids whose command line contains every word, within this world. */
  pids(...words: readonly string[]): number[];
  kill(...words: readonly string[]): number;
  write(path: string, text: string): string;
  read(path: string): string;
  env(): NodeJS.ProcessEnv;
}

export interface WorldOptions {
  /** A directory that is the caller's to remove. */
  readonly place?: string;
  /** For every program, beside what it always sees. */
  readonly environment?: Readonly<Record<string, string>>;
}

export async function createWorld(
  t: { readonly after: (work: () => Promise<void>) => void },
  { place: given, environment = {} }: WorldOptions = {},
): Promise<World> {
  const place = given ?? mkdtempSync(join(tmpdir(), "exclave-e2e-"));
  const home = join(place, "home");
  let child: ChildProcess | undefined;
  let output = "";

  const env = (): NodeJS.ProcessEnv => ({
    PATH: `${join(ROOT, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`,
    HOME: place,
    EXCLAVE_HOME: home,
    NO_COLOR: "1",
    ...environment,
    ...(process.env["EXCLAVE_TEST_TOOLS"]
      ? { EXCLAVE_TEST_TOOLS: process.env["EXCLAVE_TEST_TOOLS"] }
      : {}),
  });

  const world: World = {
    home,
    place,
    env,
    attempt: (...args) => world.attemptIn(place, ...args),
    async attemptIn(directory, ...args) {
      return run(process.execPath, [EXCLAVE, ...args], { cwd: directory, env: env() });
    },
    attemptWith: (environment, ...args) =>
      run(process.execPath, [EXCLAVE, ...args], { cwd: place, env: environment }),
    async exclave(...args) {
      const result = await world.attempt(...args);
      assert.equal(
        result.code,
        0,
        `exclave ${args.join(" ")} exited with ${result.code}\n${result.stdout}\n${result.stderr}\n--- up:\n${output.slice(-3_000)}`,
      );
      return result.stdout;
    },
    async json(...args) {
      return JSON.parse(await world.exclave(...args, "-o", "json"));
    },
    install: (name) => world.json("install", "show", name),
    jobs: (...args) => world.json("job", "list", ...args),
    async up(...args) {
      output = "";
      const started = spawn(process.execPath, [EXCLAVE, "up", ...args], {
        cwd: place,
        env: env(),
        stdio: ["ignore", "pipe", "pipe"],
      });
      child = started;
      started.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
      started.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
      await until("everything is up", () => {
        assert.equal(started.exitCode, null, `up ended early:\n${output}`);
        return args.includes("--demo") ? output.includes("ready at") : output.includes("running;");
      });
    },
    upOutput: () => output,
    async down(signal = "SIGINT") {
      const stopping = child;
      child = undefined;
      if (!stopping || stopping.exitCode !== null) return stopping?.exitCode ?? null;
      const ended = once(stopping, "exit");
      stopping.kill(signal);
      const [code] = await ended;
      return code;
    },
    pids: (...words) =>
      processes(place)
        .filter(({ command }) => words.every((word) => command.includes(word)))
        .map(({ pid }) => pid),
    kill(...words) {
      const pids = world.pids(...words);
      for (const pid of pids) killQuietly(pid, "SIGKILL");
      return pids.length;
    },
    write(path, text) {
      const file = join(place, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text, path.endsWith(".sh") ? { mode: 0o755 } : {});
      return file;
    },
    read: (path) => (existsSync(join(place, path)) ? readFileSync(join(place, path), "utf8") : ""),
  };

  t.after(async () => {
    await world.down();
    for (const { pid } of processes(place)) killQuietly(pid, "SIGKILL");
    if (process.env["EXCLAVE_KEEP"]) console.error(`kept ${place}`);
    else if (given === undefined)
      rmSync(place, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  });
  return world;
}

/** Waits for something to become true, up to a bound that only a broken product reaches. */
export async function until(
  what: string,
  isTrue: () => Promise<boolean> | boolean,
  { limitMs = 180_000, everyMs = 250 } = {},
): Promise<void> {
  const end = Date.now() + limitMs;
  let last: string | undefined;
  while (Date.now() < end) {
    try {
      if (await isTrue()) return;
      last = undefined;
    } catch (reason) {
      if (reason instanceof assert.AssertionError && reason.message.startsWith("up ended early"))
        throw reason;
      last = reason instanceof Error ? reason.message : JSON.stringify(reason);
    }
    await sleep(everyMs);
  }
  assert.fail(`waited in vain until ${what}${last ? `: ${last}` : ""}`);
}

export async function untilHealthy(world: World, name: string): Promise<InstallView> {
  let seen: InstallView | undefined;
  try {
    await until(`${name} is healthy`, async () => {
      seen = await world.install(name);
      return isSettled(seen);
    });
  } catch (reason) {
    const jobs = await world.attempt("job", "list");
    throw new Error(
      `${String(reason)}\n${JSON.stringify(seen, null, 1)}\n${jobs.stdout}\n${world.upOutput().slice(-2_000)}`,
      { cause: reason },
    );
  }
  assert.ok(seen);
  return seen;
}

export function isSettled(install: InstallView): boolean {
  return (
    install.phase === "settled" &&
    install.health === "healthy" &&
    install.components.every(({ state, activeJob }) => state === "deployed" && activeJob === null)
  );
}

export async function run(
  program: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv; readonly input?: string },
): Promise<CommandResult> {
  const child = spawn(program, args, {
    cwd: options.cwd,
    env: options.env,
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  child.stdin.end(options.input ?? "");
  const [code] = await once(child, "close");
  return { code: code ?? -1, stdout, stderr };
}

/** Every process that belongs to this world: its place is in its command line or its environment. */
export function processes(place: string): { readonly pid: number; readonly command: string }[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const command = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ");
        const environment = readFileSync(`/proc/${name}/environ`, "utf8");
        const isOurs = command.includes(place) || environment.includes(place);
        const stat = readFileSync(`/proc/${name}/stat`, "utf8");
        const isZombie = / Z /.test(stat.slice(stat.lastIndexOf(")")));
        return isOurs && !isZombie && Number(name) !== process.pid
          ? [{ pid: Number(name), command }]
          : [];
      } catch {
        return [];
      }
    });
}

function killQuietly(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It went before the signal did.
  }
}

/** The lines of a file that a job appends to: one a start, so a second start shows. */
export function lines(text: string): string[] {
  return text.split("\n").filter(Boolean);
}

export function repeated(all: readonly string[]): string[] {
  return all.filter((one, index) => all.indexOf(one) !== index);
}

export function has(program: string): boolean {
  try {
    execFileSync("sh", ["-c", `command -v ${program}`], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
