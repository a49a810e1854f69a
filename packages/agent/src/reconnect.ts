// When to dial again. Windows double from one second; inside its window an agent picks any moment,
// so that many agents that lost one server do not come back as one.

export interface ReconnectFacts {
  /** Tries since the link was last up. */
  readonly failures: number;
  /** After a session: how far the server asked agents to spread, and not to come before. */
  readonly spreadMs: number;
  readonly retryAfterMs: number;
  /** Uniform in [0, 1). */
  readonly roll: number;
}

const WINDOW_MS = 1_000;
const DOUBLINGS_MAX = 6;

export function reconnectDelayMs({
  failures,
  spreadMs,
  retryAfterMs,
  roll,
}: ReconnectFacts): number {
  const windowMs =
    failures === 0 ? spreadMs : WINDOW_MS * 2 ** Math.min(failures - 1, DOUBLINGS_MAX);
  return retryAfterMs + Math.floor(roll * windowMs);
}
