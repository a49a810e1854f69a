// What many agents at once are told, so that they do not come, ping or leave as a herd.

import { UNPROVEN_MAX } from "@exclave/api";

/** Pings of all agents together, in a second. */
const PINGS_PER_SECOND_MAX = 200;
const PING_MS_MAX = 120_000;

/** A server greets at least this many a second, and leaves half of its time to those that are here. */
const GREETINGS_PER_SECOND = 250;
const SPREAD_MS = { least: 200, most: 300_000 };

/** Of servers that stop: agents leave one after the other, as fast as others can greet them, within this time. */
const DRAINED_PER_SECOND = 333;
const DRAIN_MS = { least: 200, most: 30_000 };
/** A server that stops is not kept longer than that beyond the last slot; one that is alone, by a half-open connection. */
const DRAIN_GRACE_MS = { others: 15_000, alone: 1_000 };
/** Where no other server takes them, they come back when this one may have been started again. */
const RESTART_MS = 500;

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

export interface DrainPlan {
  /** When each leaves, from now on, in the order of their connections. */
  readonly leaveMs: (n: number) => number;
  /** How long each stays away then. */
  readonly stayAwayMs: (n: number) => number;
  /** When whoever is still here is cut. */
  readonly limitMs: number;
}

/**
 * How that many agents leave a server that stops. Where others take them each stays until its slot; where this server
 * is alone all leave at once, so that it stops soon, and come back at their slots.
 */
export function planDrain(agents: number, isAlone: boolean): DrainPlan {
  const needed = Math.ceil((agents / DRAINED_PER_SECOND) * 1_000);
  const overMs = Math.min(DRAIN_MS.most, Math.max(DRAIN_MS.least, needed));
  const slotMs = (n: number) => Math.floor((n * overMs) / Math.max(1, agents));
  if (!isAlone) {
    return {
      leaveMs: (n) => slotMs(n + 1),
      stayAwayMs: () => 0,
      limitMs: overMs + DRAIN_GRACE_MS.others,
    };
  }
  const stayAwayMs = (n: number) => RESTART_MS + slotMs(n);
  return { leaveMs: () => 0, stayAwayMs, limitMs: overMs + DRAIN_GRACE_MS.alone };
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
