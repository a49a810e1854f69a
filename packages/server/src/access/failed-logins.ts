// Failed logins are answered late: the later, the more there were from the same place or with the same
// beginning of a token. A token that is right is never made to wait, whatever others do.

import { addressGroup } from "@exclave/oci";

export interface FailedLogins {
  /** How long to wait before saying no; undefined: say at once that there are too many. */
  fail(from: { readonly address: string; readonly token: string }): number | undefined;
  /** The answer was given. */
  answered(address: string): void;
}

export interface FailedLoginLimits {
  /** Failures that cost nothing: people mistype. */
  readonly free: number;
  readonly stepMs: number;
  readonly delayMsMax: number;
  /** Answers that wait at once for one address. */
  readonly waitingMax: number;
  /** A place is forgiven when it was quiet for so long. */
  readonly forgetMs: number;
  /** Places that are remembered; the longest quiet one gives way. */
  readonly placesMax: number;
}

export const FAILED_LOGIN_LIMITS: FailedLoginLimits = {
  free: 5,
  stepMs: 100,
  delayMsMax: 5_000,
  waitingMax: 32,
  forgetMs: 10 * 60_000,
  placesMax: 10_000,
};

/** Enough to tell attempts at one token from others, too little to be of use to a reader. */
const PREFIX_LETTERS = 12;

export function createFailedLogins(
  now: () => number,
  limits: FailedLoginLimits = FAILED_LOGIN_LIMITS,
): FailedLogins {
  const places = new Map<string, { count: number; lastAt: number }>();
  const waiting = new Map<string, number>();

  return {
    fail({ address, token }) {
      const group = addressGroup(address);
      const count = Math.max(
        failedFrom(`address ${group}`),
        failedFrom(`token ${token.slice(0, PREFIX_LETTERS)}`),
      );
      const isWaiting = waiting.get(group) ?? 0;
      if (isWaiting >= limits.waitingMax) return undefined;
      waiting.set(group, isWaiting + 1);
      const over = Math.max(0, count - limits.free);
      return over === 0 ? 0 : Math.min(limits.delayMsMax, limits.stepMs * 2 ** Math.min(over, 16));
    },
    answered(address) {
      const group = addressGroup(address);
      const left = (waiting.get(group) ?? 1) - 1;
      if (left > 0) waiting.set(group, left);
      else waiting.delete(group);
    },
  };

  function failedFrom(place: string): number {
    const known = places.get(place);
    const isForgiven = known === undefined || now() - known.lastAt > limits.forgetMs;
    const count = (isForgiven ? 0 : known.count) + 1;
    // Put at the end: what is at the front was quiet the longest.
    places.delete(place);
    places.set(place, { count, lastAt: now() });
    const [oldest] = places.keys();
    if (places.size > limits.placesMax && oldest !== undefined) places.delete(oldest);
    return count;
  }
}
