// Checks apps outside the event loop: one at a time, with a deadline and a limit of memory, and for each caller at
// most a share of the time. Whoever sends what takes for ever waits for it alone.

import { performance } from "node:perf_hooks";
import { Worker } from "node:worker_threads";
import { Failure, type ParsedApp } from "@exclave/core";
import type { AppCheck } from "./app-check-worker.ts";

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
  program: URL = new URL("./app-check-worker.ts", import.meta.url),
): AppChecker {
  const waiting: Waiting[] = [];
  const restsUntil = new Map<string, number>();
  let worker: Promise<Worker> | undefined;
  let working: Promise<void> | undefined;
  let isClosed = false;

  return {
    check(app, by) {
      if (isClosed) return Promise.reject(new Failure("unavailable", "the server is stopping"));
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
      for (const { done } of waiting.splice(0)) {
        done.reject(new Failure("unavailable", "the server is stopping"));
      }
      await (await worker?.catch(() => undefined))?.terminate();
      await working;
    },
  };

  async function work(): Promise<void> {
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
    const thread = await (worker ??= startWorker());
    const answer = Promise.withResolvers<ParsedApp>();
    const onError = (reason: unknown) => answer.reject(asFailure(reason));
    const onExit = () => answer.reject(new Failure("too_large", "checking it ended its thread"));
    thread.once("message", answer.resolve);
    thread.once("error", onError);
    thread.once("exit", onExit);
    const deadline = setTimeout(() => {
      const seconds = limits.deadlineMs / 1_000;
      answer.reject(new Failure("timeout", `checking it took longer than ${seconds} s`));
    }, limits.deadlineMs);
    thread.ref();
    try {
      thread.postMessage(app);
      return await answer.promise;
    } catch (reason) {
      worker = undefined;
      await thread.terminate();
      throw reason;
    } finally {
      clearTimeout(deadline);
      thread.off("message", answer.resolve).off("error", onError).off("exit", onExit);
      thread.unref();
    }
  }

  /** Resolves when it has read its program: on a busy machine that takes longer than any check. */
  async function startWorker(): Promise<Worker> {
    const thread = new Worker(program, {
      resourceLimits: { maxOldGenerationSizeMb: limits.memoryMb, stackSizeMb: 4 },
    });
    // Between two checks nobody listens: what goes wrong then is noticed by the next one.
    thread.on("error", () => undefined);
    thread.on("exit", () => (worker = undefined));
    const ready = Promise.withResolvers<void>();
    thread.once("message", () => ready.resolve());
    thread.once("error", (reason) => ready.reject(asFailure(reason)));
    thread.once("exit", () => ready.reject(new Failure("bug", "the thread for checks ended")));
    await ready.promise;
    return thread;
  }
}

function asFailure(reason: unknown): Failure {
  if ((reason as { code?: string }).code === "ERR_WORKER_OUT_OF_MEMORY") {
    return new Failure("too_large", "checking it takes more memory than a check may");
  }
  return new Failure("bug", "checking it failed", { cause: reason });
}
