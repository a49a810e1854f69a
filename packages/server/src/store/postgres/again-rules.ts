// When the work of a transaction runs again, and how. Others may have changed what it read, its connection may have
// been cut: nothing of it happened, so it is decided anew from what is there now.

export type Mishap =
  /** Others changed what it read, or waits for it in a circle. */
  | "collided"
  /** A key was taken meanwhile; or it really is taken, which shows when nobody else is at work. */
  | "taken"
  /** The connection is gone, and what was not committed with it. */
  | "cut";

export interface Again {
  /** Nobody else is at work meanwhile: what cannot be had beside others is had alone. */
  readonly isAlone: boolean;
  readonly pauseMs: number;
}

const BESIDE_OTHERS_MAX = 4;
const ATTEMPTS_MAX = 10;
const PAUSE_MS = { first: 5, most: 500 };
/** A database that restarts is back within seconds; what it takes longer is said. */
const CUT_PAUSE_MS = { first: 50, most: 1_000 };

/** Undefined when it is not to run again. `attempt` counts those that were; `roll` is uniform in [0, 1). */
export function decideAgain(mishap: Mishap, attempt: number, roll: number): Again | undefined {
  if (attempt >= ATTEMPTS_MAX) return undefined;
  const isAlone = attempt >= BESIDE_OTHERS_MAX;
  if (mishap === "taken" && attempt > BESIDE_OTHERS_MAX) return undefined;
  const { first, most } = mishap === "cut" ? CUT_PAUSE_MS : PAUSE_MS;
  const window = Math.min(most, first * 2 ** (attempt - 1));
  return { isAlone, pauseMs: Math.ceil(window * (0.5 + roll / 2)) };
}

export function mishapOf(reason: unknown): Mishap | undefined {
  if (isCut(reason)) return "cut";
  const { code } = (reason ?? {}) as { readonly code?: unknown };
  if (code === "40001" || code === "40P01") return "collided";
  return code === "23505" ? "taken" : undefined;
}

/** Said by the pool of a connection that ended while it was used, or could not be had. */
export class ConnectionCut extends Error {}

function isCut(reason: unknown): boolean {
  return reason instanceof Error && reason.cause instanceof ConnectionCut;
}
