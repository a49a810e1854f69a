// Time in a simulated world: it passes only when the world says so, and then in order. Production
// code waits on it through the same port as on the system's clock.

import { setImmediate as nextTurn } from "node:timers/promises";
import type { CallOff, Timers } from "@exclave/api";

export interface VirtualTime {
  readonly now: number;
  /** When the next thing is due; undefined when nothing waits. */
  readonly nextAt: number | undefined;
  /** Lets time pass up to the next due thing, and does it. */
  passToNext(): void;
  pass(ms: number): void;
  /** Timers that end with whoever was given them. */
  timersFor(isAlive: () => boolean): Timers;
}

interface Waiting {
  readonly at: number;
  readonly order: number;
  readonly work: () => void;
}

export function createVirtualTime(startAt: number): VirtualTime {
  let now = startAt;
  let order = 0;
  const waiting = new Set<Waiting>();

  return {
    get now() {
      return now;
    },
    get nextAt() {
      return next()?.at;
    },
    passToNext() {
      const due = next();
      if (due) run(due);
    },
    pass(ms) {
      const until = now + ms;
      for (let due = next(); due && due.at <= until; due = next()) run(due);
      now = until;
    },
    timersFor,
  };

  function next(): Waiting | undefined {
    let first: Waiting | undefined;
    for (const one of waiting) {
      if (!first || one.at < first.at || (one.at === first.at && one.order < first.order))
        first = one;
    }
    return first;
  }

  function run(due: Waiting): void {
    waiting.delete(due);
    now = Math.max(now, due.at);
    due.work();
  }

  function timersFor(isAlive: () => boolean): Timers {
    const wait = (ms: number, work: () => void): CallOff => {
      const one: Waiting = {
        at: now + Math.max(0, ms),
        order: ++order,
        work: () => {
          if (isAlive()) work();
        },
      };
      waiting.add(one);
      return () => void waiting.delete(one);
    };
    return {
      after: wait,
      every(ms, work) {
        let callOff = wait(ms, again);
        function again(): void {
          callOff = wait(ms, again);
          work();
        }
        return () => callOff();
      },
      sleep: (ms, signal) =>
        new Promise((resolve, reject) => {
          if (signal?.aborted) return reject(signal.reason as Error);
          const callOff = wait(ms, () => {
            signal?.removeEventListener("abort", onAbort);
            resolve();
          });
          const onAbort = () => {
            callOff();
            reject(signal?.reason as Error);
          };
          signal?.addEventListener("abort", onAbort, { once: true });
        }),
    };
  }
}

/** Everything that could go on without time passing has gone on. */
export async function settle(): Promise<void> {
  await nextTurn();
}
