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
  isOff: boolean;
}

export function createVirtualTime(startAt: number): VirtualTime {
  let now = startAt;
  let order = 0;
  const waiting = createHeap();

  return {
    get now() {
      return now;
    },
    get nextAt() {
      return waiting.first()?.at;
    },
    passToNext() {
      const due = waiting.first();
      if (due) run(due);
    },
    pass(ms) {
      const until = now + ms;
      for (let due = waiting.first(); due && due.at <= until; due = waiting.first()) run(due);
      now = until;
    },
    timersFor,
  };

  function run(due: Waiting): void {
    waiting.takeFirst();
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
        isOff: false,
      };
      waiting.add(one);
      return () => {
        one.isOff = true;
      };
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

interface Heap {
  /** What is due first, by time and then by when it was asked for. */
  first(): Waiting | undefined;
  takeFirst(): void;
  add(one: Waiting): void;
}

/** A binary heap; what was called off is dropped when it comes up. */
function createHeap(): Heap {
  const heap: Waiting[] = [];
  const isBefore = (one: Waiting, other: Waiting) =>
    one.at < other.at || (one.at === other.at && one.order < other.order);
  return {
    first() {
      while (heap[0]?.isOff) takeFirst();
      return heap[0];
    },
    takeFirst,
    add(one) {
      let at = heap.length;
      while (at > 0) {
        const above = (at - 1) >> 1;
        const parent = heap[above];
        if (!parent || !isBefore(one, parent)) break;
        heap[at] = parent;
        at = above;
      }
      heap[at] = one;
    },
  };

  function takeFirst(): void {
    const last = heap.pop();
    if (!last || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let below = at * 2 + 1;
      const right = heap[below + 1];
      let child = heap[below];
      if (!child) break;
      if (right && isBefore(right, child)) {
        child = right;
        below++;
      }
      if (!isBefore(child, last)) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = last;
  }
}

/**
 * Everything that could go on without time passing has gone on: what is put off to the next tick comes
 * after every promise that is ready. A turn of the event loop would do the same and cost far more.
 */
export function settle(): Promise<void> {
  return new Promise((resolve) => {
    process.nextTick(resolve);
  });
}

/** As well as what Node itself does between turns: it tells of errors that nobody handles. */
export async function settleWholly(): Promise<void> {
  await nextTurn();
}
