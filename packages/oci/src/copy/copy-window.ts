// How many blobs may be under way at once. A registry that says it is too much halves the number; each
// one that arrives widens it a little, up to where it began (additive increase, multiplicative
// decrease, as in congestion control).

export interface Window {
  readonly size: number;
  throttled(nowMs: number): void;
  succeeded(): void;
}

/** Refusals this close together are one: they were sent before the first of them was heard. */
const BURST_MS = 250;

export function createWindow(max: number): Window {
  let limit = max;
  let throttledAt = Number.NEGATIVE_INFINITY;
  return {
    get size() {
      return Math.floor(limit);
    },
    throttled(nowMs) {
      if (nowMs - throttledAt < BURST_MS) return;
      throttledAt = nowMs;
      limit = Math.max(1, limit / 2);
    },
    succeeded() {
      limit = Math.min(max, limit + 1 / limit);
    },
  };
}

/** The first failure stops what has not begun, and is thrown when the rest has ended. */
export async function runInWindow<T>(
  items: readonly T[],
  window: Window,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const running = new Set<Promise<void>>();
  let failed: { readonly reason: unknown } | undefined;
  for (const item of items) {
    while (running.size >= window.size) await Promise.race(running);
    if (failed) break;
    const mine: Promise<void> = work(item).then(
      () => window.succeeded(),
      (reason: unknown) => {
        failed ??= { reason };
      },
    );
    const tracked = mine.finally(() => running.delete(tracked));
    running.add(tracked);
  }
  await Promise.all(running);
  if (failed) throw failed.reason;
}
