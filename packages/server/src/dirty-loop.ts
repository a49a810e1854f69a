// Looks again at what was marked dirty, one at a time. Marking is cheap, never waits, and marking
// twice is marking once; a look that fails is tried again later.

import type { Logger } from "pino";

const RETRY_MS = 1_000;

export interface DirtyLoop {
  mark(name: string): void;
  /** Marks it when that moment has come. */
  markAt(name: string, at: number): void;
  /** No more looks are begun; resolves when the one under way is over. */
  stop(): Promise<void>;
}

export function createDirtyLoop(options: {
  readonly look: (name: string) => Promise<void>;
  readonly now: () => number;
  readonly log: Logger;
}): DirtyLoop {
  const { look, now, log } = options;
  const dirty = new Set<string>();
  const timers = new Map<string, NodeJS.Timeout>();
  let working: Promise<void> | undefined;
  let isStopped = false;

  return { mark, markAt, stop };

  function mark(name: string): void {
    if (isStopped) return;
    dirty.add(name);
    working ??= work();
  }

  function markAt(name: string, at: number): void {
    if (isStopped) return;
    clearTimeout(timers.get(name));
    const timer = setTimeout(() => mark(name), Math.max(0, at - now()));
    timer.unref();
    timers.set(name, timer);
  }

  async function work(): Promise<void> {
    // Whoever marked something is done with what it was doing before the look begins.
    await Promise.resolve();
    for (const name of dirty) {
      dirty.delete(name);
      if (isStopped) break;
      try {
        await look(name);
      } catch (reason) {
        log.error({ reason, name }, "a look failed and is tried again");
        markAt(name, now() + RETRY_MS);
      }
    }
    working = undefined;
    if (dirty.size > 0 && !isStopped) working = work();
  }

  async function stop(): Promise<void> {
    isStopped = true;
    for (const timer of timers.values()) clearTimeout(timer);
    await working;
  }
}
