// When the next connection is dialled, from how the last ones went and what their servers said.

import { DRAINING, DRAINS_IN_A_ROW_MAX, type ServerFrame } from "@exclave/api";
import { failuresAfter, reconnectDelayMs } from "./reconnect.ts";

export interface NextDial {
  /** The server let the agent in, and said how far to spread when it is lost. */
  welcomed(reconnectSpreadMs: number): void;
  /** The server answered with something else than a connection. */
  refused(retryAfterMs: number): void;
  sentAway(goaway: GoAway): void;
  /** The server stops, and this agent leaves it when it was told to. */
  drained(): void;
  /** After a connection that was live for so long; undefined if it was never. */
  pauseMs(liveMs: number | undefined): number;
}

type GoAway = Extract<ServerFrame, { type: "goaway" }>;

/** A server that says it never wants this agent is retried, but rarely: people mend things. */
export const PERMANENT_RETRY_MS = 600_000;

/** Whatever the server says: an agent is never told to stay away for ever. */
export const SPREAD_MS_MAX = 300_000;

export function createNextDial(random: () => number): NextDial {
  let failures = 0;
  let spreadMs = 0;
  let retryAfterMs = 0;
  /** Servers that stopped, one after the other, and their agent with them: no failure of the link. */
  let drains = 0;
  /** A certificate that was just given is used at once; if it does not help, as for any other failure. */
  let isCertificateHelpful = true;

  return {
    welcomed(ms) {
      isCertificateHelpful = true;
      spreadMs = Math.min(ms, SPREAD_MS_MAX);
    },
    refused(ms) {
      retryAfterMs = ms;
    },
    sentAway(goaway) {
      retryAfterMs = stayAwayMs(goaway);
      spreadMs = Math.min(goaway.spreadMs ?? spreadMs, SPREAD_MS_MAX);
      if (goaway.code === DRAINING) isNoFailure();
      const isCertified = goaway.code === "certificate" && !goaway.permanent;
      if (isCertified && isCertificateHelpful) failures = 0;
      isCertificateHelpful &&= !isCertified;
    },
    drained() {
      spreadMs = 0;
      isNoFailure();
    },
    pauseMs(liveMs) {
      failures = failuresAfter(failures, liveMs ?? 0);
      drains = failuresAfter(drains, liveMs ?? 0);
      const wasWelcome = liveMs !== undefined;
      const facts = { failures, wasWelcome, spreadMs, retryAfterMs, roll: random() };
      failures++;
      retryAfterMs = 0;
      return reconnectDelayMs(facts);
    },
  };

  function isNoFailure(): void {
    if (++drains <= DRAINS_IN_A_ROW_MAX) failures = 0;
  }
}

function stayAwayMs({ permanent, retryAfterMs }: GoAway): number {
  return permanent ? PERMANENT_RETRY_MS : Math.min(retryAfterMs, PERMANENT_RETRY_MS);
}
