// When a server counts as gone. It is the database's clock that says how long one was silent. Whoever could not reach
// the database itself takes nobody's place away: the others may have been as far from it.

export const BEAT_EVERY_MS = 1_000;
/** Silent for so long, whatever its connection says: it may stand still. */
export const GONE_AFTER_MS = 6_000;
/** Silent for so long, and its connection has ended: a process that died, or one that is about to connect again. */
export const CUT_OFF_AFTER_MS = 2_500;

export interface Beats {
  /** When this server's last beat succeeded; undefined before the first. */
  readonly lastAt: number | undefined;
  /** Since when its beats succeed without a pause. */
  readonly steadySince: number | undefined;
}

export const NO_BEATS: Beats = { lastAt: undefined, steadySince: undefined };

/** Times are of a clock that is never set back. */
export function afterBeat({ lastAt, steadySince }: Beats, now: number): Beats {
  const isSteady = lastAt !== undefined && now - lastAt < CUT_OFF_AFTER_MS;
  return { lastAt: now, steadySince: isSteady ? (steadySince ?? now) : now };
}

/** Whether it may take the place of others away. */
export function mayJudge({ steadySince }: Beats, now: number): boolean {
  return steadySince !== undefined && now - steadySince >= GONE_AFTER_MS;
}

export interface ServerSeen {
  readonly silentMs: number;
  readonly isConnected: boolean;
}

export function isThere({ silentMs, isConnected }: ServerSeen): boolean {
  return silentMs < (isConnected ? GONE_AFTER_MS : CUT_OFF_AFTER_MS);
}
