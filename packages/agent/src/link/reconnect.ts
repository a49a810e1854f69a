// When to dial again. Windows double from one second; inside its window an agent picks any moment,
// so that many agents that lost one server do not come back as one. Only a link that held for a while
// starts them anew: one that is cut right after its welcome would otherwise be dialled for ever.

import { STABLE_MS } from "@exclave/api";

export interface ReconnectFacts {
  /** Tries since the link was last up for long. */
  readonly failures: number;
  /** Whether the last try was welcomed: a server that is there is asked a little more often. */
  readonly wasWelcome?: boolean;
  /** After a session: how far the server asked agents to spread, and not to come before. */
  readonly spreadMs: number;
  readonly retryAfterMs: number;
  /** Uniform in [0, 1). */
  readonly roll: number;
}

const WINDOW_MS = 1_000;
const DOUBLINGS_MAX = 6;
const WELCOME_DOUBLINGS_MAX = 4;

/** How many tries count from now on, after a connection that was live for so long (0: never). */
export function failuresAfter(failures: number, liveMs: number): number {
  return liveMs >= STABLE_MS ? 0 : failures;
}

export function reconnectDelayMs({
  failures,
  wasWelcome = false,
  spreadMs,
  retryAfterMs,
  roll,
}: ReconnectFacts): number {
  const doublingsMax = wasWelcome ? WELCOME_DOUBLINGS_MAX : DOUBLINGS_MAX;
  const windowMs =
    failures === 0 ? spreadMs : WINDOW_MS * 2 ** Math.min(failures - 1, doublingsMax);
  return retryAfterMs + Math.floor(roll * windowMs);
}
