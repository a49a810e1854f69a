// Reconciles what was marked dirty, several names side by side and each by itself: one that waits for something keeps
// nobody else waiting. Marking is cheap, never waits, and marking twice is marking once; a reconciliation that fails is
// retried. After each the event loop has its turn: a store may answer at once, so a long row of reconciliations would
// otherwise keep every socket unread until all are done.

import { setImmediate } from "node:timers/promises";
import type { CallOff, Timers } from "@exclave/api";
import type { Logger } from "pino";

const RETRY_MS = 1_000;
/** More of them would only keep the event loop longer, less of them leave a group commit half empty. */
const SIDE_BY_SIDE = 8;

export interface ReconcileLoop {
  mark(name: string): void;
  /** Marks it when that moment has come. */
  markAt(name: string, at: number): void;
  /** How many are marked and wait for their turn. */
  backlog(): number;
  /** Begins no more reconciliations; resolves when those under way are over. */
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
  const busy = new Set<string>();
  const later = new Map<string, CallOff>();
  const workers = new Set<Promise<void>>();
  let isStopped = false;

  return { mark, markAt, backlog: () => dirty.size, stop };

  function mark(name: string): void {
    if (isStopped) return;
    dirty.add(name);
    if (workers.size >= SIDE_BY_SIDE) return;
    const worker = work().finally(() => workers.delete(worker));
    workers.add(worker);
  }

  function markAt(name: string, at: number): void {
    if (isStopped) return;
    later.get(name)?.();
    later.set(
      name,
      timers.after(Math.max(0, at - now()), () => {
        later.delete(name);
        mark(name);
      }),
    );
  }

  async function work(): Promise<void> {
    // Whoever marked something is done with what it was doing before this begins.
    await Promise.resolve();
    for (let name = next(); name !== undefined; name = next()) {
      busy.add(name);
      try {
        await reconcile(name);
      } catch (reason) {
        log.error({ reason, name }, "a reconciliation failed and is retried");
        markAt(name, now() + RETRY_MS);
      }
      busy.delete(name);
      if (dirty.size > 0) await nextTurn();
    }
  }

  /** One that is marked during its own reconciliation waits for the end of it. */
  function next(): string | undefined {
    if (isStopped) return undefined;
    for (const name of dirty) {
      if (busy.has(name)) continue;
      dirty.delete(name);
      return name;
    }
    return undefined;
  }

  async function stop(): Promise<void> {
    isStopped = true;
    for (const callOff of later.values()) callOff();
    await Promise.all(workers);
  }
}
