// Lets the agents of a server that stops go, each at a slot of its own, and cuts whoever is still there at the limit.

import type { Timers } from "@exclave/api";
import type { LinkSession } from "../session/link-session.ts";
import { planDrain } from "./herd.ts";

const AT_ONCE = 50;

export interface DrainOptions {
  /** No other server takes its agents. */
  readonly isAlone: boolean;
  readonly timers: Timers;
  readonly nextTurn: () => Promise<void>;
  /** Fires when the last session has ended. */
  readonly gone: AbortSignal;
}

export async function drainSessions(
  sessions: ReadonlySet<LinkSession>,
  { isAlone, timers, nextTurn, gone }: DrainOptions,
): Promise<void> {
  if (sessions.size === 0) return;
  const { leaveMs, stayAwayMs, limitMs } = planDrain(sessions.size, isAlone);
  const over = timers.sleep(limitMs, gone).catch(() => undefined);
  let slot = 0;
  for (const session of sessions) {
    session.drain({ leaveMs: leaveMs(slot), stayAwayMs: stayAwayMs(slot) });
    // So that what others say meanwhile is still heard, and acknowledged.
    if (++slot % AT_ONCE === 0) await nextTurn();
  }
  await over;
  for (const session of sessions) session.cut();
}
