// Checks apps in a process of their own: one at a time, with a deadline and a limit of memory, and for each caller at
// most a share of the time. Whoever sends what takes for ever waits for it alone.

import { performance } from "node:perf_hooks";
import { Failure, type ParsedApp } from "@exclave/core";
import type { AppCheck } from "./app-check-process.ts";
import {
  type AppCheckProgramLimits,
  createAppCheckProgram,
  stopping,
} from "./app-check-program.ts";

export interface AppChecker {
  /** Throws `timeout` or `too_large` when it takes more than a check may, `rate_limited` when too many wait. */
  check(app: AppCheck, by: string): Promise<ParsedApp>;
  close(): Promise<void>;
}

export interface AppCheckLimits extends AppCheckProgramLimits {
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
  startMsMax: 60_000,
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
  path?: string,
): AppChecker {
  const waiting: Waiting[] = [];
  const restsUntil = new Map<string, number>();
  const program = createAppCheckProgram(limits, path);
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
      await program.close();
      await working;
    },
  };

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
        next.done.resolve(await program.run(next.app));
      } catch (reason) {
        next.done.reject(reason);
      }
      const tookMs = performance.now() - began;
      restsUntil.set(next.by, performance.now() + tookMs * limits.restFactor);
    }
    working = undefined;
    if (!isClosed) idle = setTimeout(() => void program.end(), limits.idleMs).unref();
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
}
