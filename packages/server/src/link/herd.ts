// What many agents at once are told, so that they do not come, ping or leave as a herd.

import { UNPROVEN_MAX } from "@exclave/api";

/** Pings of all agents together, in a second. */
const PINGS_PER_SECOND_MAX = 200;
const PING_MS_MAX = 120_000;

/** A server greets at least this many a second, and leaves half of its time to those that are here. */
const GREETINGS_PER_SECOND = 250;
const SPREAD_MS = { least: 200, most: 300_000 };

const AGE_MS = 8 * 60 * 60_000;
const AGE_JITTER = 0.1;

/** An agent proves itself in one turn. Whoever takes longer while others wait is none. */
const HANDSHAKE_MS = 2_000;
export const COME_BACK_SECONDS = 5;

/** How often each is pinged: never more often than wanted, and less often as they become many. */
export function pingMsFor(agents: number, wantedMs: number): number {
  const shared = Math.ceil((agents / PINGS_PER_SECOND_MAX) * 1_000);
  return Math.max(wantedMs, Math.min(PING_MS_MAX, shared));
}

/** Over how long they spread when all of them lose the server: a few come back at once. */
export function spreadMsFor(agents: number): number {
  const needed = Math.ceil((agents / GREETINGS_PER_SECOND) * 1_000);
  return Math.min(SPREAD_MS.most, Math.max(SPREAD_MS.least, needed));
}

/** How old a connection may become. Not the same for all, so that those of one minute do not end in one. */
export function ageMsOf(roll: number): number {
  return Math.round(AGE_MS * (1 - AGE_JITTER + 2 * AGE_JITTER * roll));
}

export type Admission =
  | "in"
  /** The one that has been proving itself for longest is cut. */
  | "for_the_oldest"
  | "later";

export function admit(unproven: { readonly count: number; readonly oldestMs: number }): Admission {
  if (unproven.count < UNPROVEN_MAX) return "in";
  return unproven.oldestMs > HANDSHAKE_MS ? "for_the_oldest" : "later";
}
