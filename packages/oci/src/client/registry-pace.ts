// How fast a registry may be asked: pauses between tries, and silence while it wants to be left alone.

import { setTimeout as sleep } from "node:timers/promises";
import { asFailure } from "@exclave/core";

export interface Pace {
  /** Waits before that try, as long as is usual or as the registry asked, whichever is longer. */
  readonly pauseBefore: (attempt: number, reason: unknown, signal?: AbortSignal) => Promise<void>;
  /** Waits while the registry wants to hear nothing; then that is one request more. */
  readonly beforeRequest: (signal: AbortSignal | undefined) => Promise<void>;
  /** Calls back whenever the registry says that this is too much for it; returns how to stop. */
  readonly onThrottle: (listener: () => void) => () => void;
  /** Requests there have been. */
  readonly requests: number;
}

const PAUSE_MS_MAX = 30_000;
/** A registry that asks for more patience than this gets none: the caller decides. */
const RETRY_AFTER_MS_MAX = 5 * 60_000;

export function createPace({ backoffMs }: { readonly backoffMs: number }): Pace {
  const throttled = new Set<() => void>();
  let quietUntil = 0;
  let requests = 0;
  return {
    pauseBefore,
    beforeRequest,
    onThrottle,
    get requests() {
      return requests;
    },
  };

  async function pauseBefore(attempt: number, reason: unknown, signal?: AbortSignal) {
    const { code, details } = asFailure(reason);
    const asked = details["retryAfterMs"];
    if (code === "rate_limited" || details["status"] === 503) {
      for (const listener of throttled) listener();
    }
    if (typeof asked === "number") {
      if (asked > RETRY_AFTER_MS_MAX) throw reason;
      // It was said to one request and is meant for all of them.
      quietUntil = Math.max(quietUntil, Date.now() + asked);
    }
    // A registry that asks for no time at all still gets the usual one.
    const usualMs = Math.min(backoffMs * 2 ** (attempt - 2), PAUSE_MS_MAX);
    await sleep(usualMs, undefined, signal ? { signal } : {});
    await untilQuiet(signal);
  }

  async function beforeRequest(signal: AbortSignal | undefined): Promise<void> {
    await untilQuiet(signal);
    requests++;
  }

  async function untilQuiet(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const leftMs = quietUntil - Date.now();
    if (leftMs > 0) await sleep(leftMs, undefined, signal ? { signal } : {});
  }

  function onThrottle(listener: () => void): () => void {
    throttled.add(listener);
    return () => throttled.delete(listener);
  }
}
