// Reconciles what was marked dirty, one name at a time. Marking is cheap, never waits, and marking twice
// is marking once; a reconciliation that fails is retried. Between two the event loop has its turn:
// a reconciliation awaits nothing but the store, which answers at once, so a long row of them would
// otherwise keep every socket unread until all are done.

import { setImmediate } from "node:timers/promises";
import type { CallOff, Timers } from "@exclave/api";
import type { Logger } from "pino";

const RETRY_MS = 1_000;

export interface ReconcileLoop {
  mark(name: string): void;
  /** Marks it when that moment has come. */
  markAt(name: string, at: number): void;
  /** How many are marked and wait for their turn. */
  backlog(): number;
  /** Begins no more reconciliations; resolves when the one under way is over. */
  stop(): Promise<void>;
}

export function createReconcileLoop(options: {
  readonly reconcile: (name: string) => Promise<void>;
  readonly now: () => number;
  readonly timers: Timers;
  /** Lets everything else that is ready have its turn. */
  readonly nextTurn?: () => Promise<void>;
  readonly log: Logger;
}): ReconcileLoop {
  const { reconcile, now, timers, log } = options;
  const nextTurn = options.nextTurn ?? setImmediate;
  const dirty = new Set<string>();
  const waiting = new Map<string, CallOff>();
  let working: Promise<void> | undefined;
  let isStopped = false;

  return { mark, markAt, backlog: () => dirty.size, stop };

  function mark(name: string): void {
    if (isStopped) return;
    dirty.add(name);
    working ??= work();
  }

  function markAt(name: string, at: number): void {
    if (isStopped) return;
    waiting.get(name)?.();
    waiting.set(
      name,
      timers.after(Math.max(0, at - now()), () => {
        waiting.delete(name);
        mark(name);
      }),
    );
  }

  async function work(): Promise<void> {
    // Whoever marked something is done with what it was doing before this begins.
    await Promise.resolve();
    for (const name of dirty) {
      dirty.delete(name);
      if (isStopped) break;
      try {
        await reconcile(name);
      } catch (reason) {
        log.error({ reason, name }, "a reconciliation failed and is retried");
        markAt(name, now() + RETRY_MS);
      }
      if (dirty.size > 0) await nextTurn();
    }
    working = undefined;
    if (dirty.size > 0 && !isStopped) working = work();
  }

  async function stop(): Promise<void> {
    isStopped = true;
    for (const callOff of waiting.values()) callOff();
    await working;
  }
}
