// Makes an agent that is too fast wait: what it says stays in its socket, and others are served meanwhile. One that
// is too fast for long is sent away.

import { THROTTLED_MS_MAX, type Timers } from "@exclave/api";
import { Failure } from "@exclave/core";
import type { AgentQuota, RateName } from "./agent-quota.ts";

/** Resolves when there is one to take; throws `rate_limited` when the agent has waited for too long in a row. */
export type Allowance = (rate: RateName, quota: AgentQuota | undefined) => Promise<void>;

/** Short, so that a connection that ends is noticed. */
const WAIT_MS_MAX = 500;

export function createAllowance(options: {
  readonly now: () => number;
  readonly isOver: () => boolean;
  readonly timers: Pick<Timers, "sleep">;
}): Allowance {
  const { now, isOver, timers } = options;
  let throttledSince: number | undefined;

  return async (rate, quota) => {
    let hasWaited = false;
    for (;;) {
      const waitMs = quota?.waitMs(rate, now()) ?? 0;
      if (waitMs === 0) {
        if (!hasWaited) throttledSince = undefined;
        return;
      }
      throttledSince ??= now();
      if (now() - throttledSince > THROTTLED_MS_MAX) {
        throw new Failure("rate_limited", `this agent sends more ${rate}s than it may`);
      }
      hasWaited = true;
      await timers.sleep(Math.min(waitMs, WAIT_MS_MAX));
      if (isOver()) return;
    }
  };
}
