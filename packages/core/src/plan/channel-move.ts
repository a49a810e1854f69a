// Which release a channel points at: the one asked for last. Releases take their time to build, and
// the one asked for first may be ready last.

import { Instant } from "../ids.ts";

/** The moment a new wish counts from: later than every wish before it, whatever the clock says. */
export function askedNow(now: Instant, last: Instant | null | undefined): Instant {
  return Instant.parse(Math.max(now, (last ?? -1) + 1));
}

/** Whether a release that became ready moves its channel, which was last moved by another wish. */
export function movesChannel(asked: Instant, channel: { readonly askedAt: Instant } | undefined) {
  return channel === undefined || asked > channel.askedAt;
}
