// Checks apps in a process of their own: one at a time, with a deadline and a limit of memory, and for each caller at
// most a share of the time. Whoever sends what takes for ever waits for it alone.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { extname } from "node:path";
import { performance } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { Failure, type ParsedApp } from "@exclave/core";
import type { AppCheck } from "./app-check-process.ts";

export interface AppChecker {
  /** Throws `timeout` or `too_large` when it takes more than a check may, `rate_limited` when too many wait. */
  check(app: AppCheck, by: string): Promise<ParsedApp>;
  close(): Promise<void>;
}

export interface AppCheckLimits {
  readonly deadlineMs: number;
  readonly memoryMb: number;
  /** Checks that wait, of everybody and of one caller. */
  readonly waitingMax: number;
  readonly waitingOfOneMax: number;
  /** A check that has not begun by then is refused. */
  readonly waitingMsMax: number;
  /** A program that has had nothing to check for so long is ended: it keeps a hundred megabytes. */
  readonly idleMs: number;
  /** After a check, its caller's next one waits this many times as long as it took. */
  readonly restFactor: number;
}

/** A check of the largest file takes about a second; all its steps are bounded, and this is the net below. */
export const APP_CHECK_LIMITS: AppCheckLimits = {
  deadlineMs: 10_000,
  memoryMb: 192,
  waitingMax: 32,
  waitingOfOneMax: 4,
  waitingMsMax: 30_000,
  idleMs: 60_000,
  restFactor: 3,
};

const TOO_MANY = "too many checks are waiting; try again in a moment";

interface Waiting {
  readonly app: AppCheck;
  readonly by: string;
  readonly since: number;
  readonly done: PromiseWithResolvers<ParsedApp>;
}

export function createAppChecker(
  limits: AppCheckLimits = APP_CHECK_LIMITS,
  path: string = programPath(),
): AppChecker {
  const waiting: Waiting[] = [];
  const restsUntil = new Map<string, number>();
  let program: Promise<ChildProcess> | undefined;
  let working: Promise<void> | undefined;
  let idle: NodeJS.Timeout | undefined;
  let isClosed = false;

  return {
    check(app, by) {
      if (isClosed) return Promise.reject(stopping());
      const ofCaller = waiting.filter((one) => one.by === by).length;
      if (waiting.length >= limits.waitingMax || ofCaller >= limits.waitingOfOneMax) {
        return Promise.reject(new Failure("rate_limited", TOO_MANY));
      }
      const done = Promise.withResolvers<ParsedApp>();
      waiting.push({ app, by, since: performance.now(), done });
      working ??= work();
      return done.promise;
    },
    async close() {
      isClosed = true;
      for (const { done } of waiting.splice(0)) done.reject(stopping());
      clearTimeout(idle);
      await endProgram();
      await working;
    },
  };

  async function endProgram(): Promise<void> {
    const ending = program;
    // At once: the next check must not be given to one that is being ended.
    program = undefined;
    const child = await ending?.catch(() => undefined);
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  async function work(): Promise<void> {
    clearTimeout(idle);
    while (waiting.length > 0) {
      const next = takeRested();
      if (!next) {
        await new Promise((resolve) => setTimeout(resolve, restMs()));
        continue;
      }
      const began = performance.now();
      try {
        next.done.resolve(await run(next.app));
      } catch (reason) {
        next.done.reject(reason);
      }
      const tookMs = performance.now() - began;
      restsUntil.set(next.by, performance.now() + tookMs * limits.restFactor);
    }
    working = undefined;
    if (!isClosed) idle = setTimeout(() => void endProgram(), limits.idleMs).unref();
  }

  /** The first whose caller has rested: a caller that is busy does not keep others waiting. */
  function takeRested(): Waiting | undefined {
    const now = performance.now();
    for (const [by, until] of restsUntil) if (until <= now) restsUntil.delete(by);
    for (const { since, done } of waiting) {
      if (now - since > limits.waitingMsMax) done.reject(new Failure("rate_limited", TOO_MANY));
    }
    waiting.splice(
      0,
      Infinity,
      ...waiting.filter(({ since }) => now - since <= limits.waitingMsMax),
    );
    const at = waiting.findIndex(({ by }) => !restsUntil.has(by));
    return at < 0 ? undefined : waiting.splice(at, 1)[0];
  }

  function restMs(): number {
    const untils = waiting.map(({ by }) => restsUntil.get(by) ?? 0);
    // Short, because somebody else may come in the meantime.
    return Math.min(50, Math.max(1, Math.min(...untils) - performance.now()));
  }

  async function run(app: AppCheck): Promise<ParsedApp> {
    const child = await (program ??= keep(startProgram()));
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
      program = undefined;
      child.kill("SIGKILL");
      throw reason;
    } finally {
      clearTimeout(deadline);
      child.off("message", answer.resolve).off("exit", onExit);
    }
  }

  /** One that has ended, or never began, is forgotten; not one that was started in its place meanwhile. */
  function keep(started: Promise<ChildProcess>): Promise<ChildProcess> {
    const forget = () => {
      if (program === started) program = undefined;
    };
    started.then((child) => child.once("exit", forget), forget);
    return started;
  }

  /** Resolves when it has read its program: on a busy machine that takes longer than any check. */
  async function startProgram(): Promise<ChildProcess> {
    const child = fork(path, {
      // Nothing of the server's is its business.
      env: {},
      execArgv: [`--max-old-space-size=${limits.memoryMb}`, "--max-semi-space-size=4"],
      serialization: "advanced",
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    // Between two checks nobody listens: what goes wrong then is noticed by the next one.
    child.on("error", () => undefined);
    const ready = Promise.withResolvers<void>();
    const onError = (cause: Error) =>
      ready.reject(new Failure("unavailable", "checks cannot be started", { cause }));
    const onExit = () => ready.reject(new Failure("unavailable", "the program for checks ended"));
    child.once("message", () => ready.resolve());
    child.once("error", onError).once("exit", onExit);
    await ready.promise;
    child.off("error", onError).off("exit", onExit);
    return child;
  }
}

function stopping(): Failure {
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
