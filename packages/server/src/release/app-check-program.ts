// The process that checks apps: started when there is something to check, one check at a time, killed when a check
// takes more than it may.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { Failure, type ParsedApp } from "@exclave/core";
import type { AppCheck } from "./app-check-process.ts";

export interface AppCheckProgram {
  run(app: AppCheck): Promise<ParsedApp>;
  /** Ends the process; the next check starts another. */
  end(): Promise<void>;
  /** Ends it for good: a check under way fails because the server is stopping. */
  close(): Promise<void>;
}

export interface AppCheckProgramLimits {
  readonly deadlineMs: number;
  readonly memoryMb: number;
  /** A process that is not ready by then is given up. */
  readonly startMsMax: number;
}

export function createAppCheckProgram(
  limits: AppCheckProgramLimits,
  path: string = programPath(),
): AppCheckProgram {
  let started: Promise<ChildProcess> | undefined;
  let isClosed = false;

  return {
    run,
    end,
    async close() {
      isClosed = true;
      await end();
    },
  };

  async function run(app: AppCheck): Promise<ParsedApp> {
    const child = await (started ??= keep(startProgram(path, limits)));
    const answer = Promise.withResolvers<ParsedApp>();
    const onExit = (code: number | null, signal: string | null) =>
      answer.reject(isClosed ? stopping() : endedBy(code, signal));
    child.once("message", answer.resolve);
    child.once("exit", onExit);
    const deadline = setTimeout(() => {
      const seconds = limits.deadlineMs / 1_000;
      answer.reject(new Failure("timeout", `checking it took longer than ${seconds} s`));
    }, limits.deadlineMs);
    try {
      child.send(app, (error) => {
        if (error) answer.reject(new Failure("bug", "checking it failed", { cause: error }));
      });
      return await answer.promise;
    } catch (reason) {
      started = undefined;
      child.kill("SIGKILL");
      throw reason;
    } finally {
      clearTimeout(deadline);
      child.off("message", answer.resolve).off("exit", onExit);
    }
  }

  async function end(): Promise<void> {
    const ending = started;
    // At once: the next check must not be given to one that is being ended.
    started = undefined;
    const child = await ending?.catch(() => undefined);
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  /** One that has ended, or never began, is forgotten; not one that was started in its place meanwhile. */
  function keep(starting: Promise<ChildProcess>): Promise<ChildProcess> {
    const forget = () => {
      if (started === starting) started = undefined;
    };
    starting.then((child) => child.once("exit", forget), forget);
    return starting;
  }
}

/** Resolves when it has read its program: on a busy machine that takes longer than any check. */
async function startProgram(
  path: string,
  { memoryMb, startMsMax }: AppCheckProgramLimits,
): Promise<ChildProcess> {
  const child = fork(path, {
    // Nothing of the server's is its business.
    env: {},
    execArgv: [`--max-old-space-size=${memoryMb}`, "--max-semi-space-size=4"],
    serialization: "advanced",
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  // Between two checks nobody listens: what goes wrong then is noticed by the next one.
  child.on("error", () => undefined);
  const ready = Promise.withResolvers<void>();
  const onError = (cause: Error) =>
    ready.reject(new Failure("unavailable", "checks cannot be started", { cause }));
  const onExit = () => ready.reject(new Failure("unavailable", "the program for checks ended"));
  const deadline = setTimeout(() => {
    const because = `the program for checks was not ready after ${startMsMax / 1_000} s`;
    ready.reject(new Failure("unavailable", `${because}; try again when the server is less busy`));
  }, startMsMax);
  child.once("message", () => ready.resolve());
  child.once("error", onError).once("exit", onExit);
  try {
    await ready.promise;
    return child;
  } catch (reason) {
    child.kill("SIGKILL");
    throw reason;
  } finally {
    clearTimeout(deadline);
    child.off("error", onError).off("exit", onExit);
  }
}

export function stopping(): Failure {
  return new Failure("unavailable", "the server is stopping");
}

/** Node ends itself with SIGABRT when its heap is full; a kernel out of memory kills. */
function endedBy(code: number | null, signal: string | null): Failure {
  if (signal === "SIGABRT" || signal === "SIGKILL" || code === ABORTED) {
    return new Failure("too_large", "checking it takes more memory than a check may");
  }
  return new Failure("bug", `checking it ended its program with ${signal ?? code}`);
}

/** What a shell or a platform without signals makes of SIGABRT. */
const ABORTED = 134;

/** `.ts` in a clone, `.js` when built. */
function programPath(): string {
  const file = `./app-check-process${extname(import.meta.filename)}`;
  return fileURLToPath(new URL(file, import.meta.url));
}
