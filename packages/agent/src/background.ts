// Work that takes long and runs beside the agent's loop.

import type { Timers } from "@exclave/api";
import type { Log } from "./log.ts";

export interface Background {
  /** Does not hold up the caller. What it cannot do is logged; what must not be left undone retries itself. */
  readonly run: (work: () => Promise<void>) => void;
  /** Retries with growing pauses until it is done, or the agent stops. */
  readonly untilDone: <Value>(work: () => Promise<Value>) => Promise<Value>;
}

const RETRY_MAX_MS = 30_000;

export function createBackground(options: {
  readonly signal: AbortSignal;
  /** The first pause; pauses double. */
  readonly retryMs: number;
  readonly timers: Timers;
  readonly log: Log;
}): Background {
  const { signal, retryMs, timers, log } = options;
  return { run, untilDone };

  function run(work: () => Promise<void>): void {
    work().catch((reason: unknown) => {
      if (!signal.aborted) log.error("background work failed", { reason });
    });
  }

  async function untilDone<Value>(work: () => Promise<Value>): Promise<Value> {
    for (let pauseMs = retryMs; ; pauseMs = Math.min(pauseMs * 2, RETRY_MAX_MS)) {
      try {
        return await work();
      } catch (reason) {
        signal.throwIfAborted();
        log.warn("the runtime did not do as asked; retrying", { reason, pauseMs });
        await timers.sleep(pauseMs, signal);
      }
    }
  }
}
