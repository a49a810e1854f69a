// How large, how many and how often, on the link. Both sides read these numbers from here, and
// docs/specs/link-v1.md states them. Whoever goes over one is refused; nobody else notices.

import { MANIFEST_BYTES_MAX } from "@exclave/core";

const ENVELOPE_BYTES_MAX = 32 * 1024;

/** One frame: the largest manifest as base64, with its signatures and the frame around them. */
export const FRAME_BYTES_MAX = Math.ceil((MANIFEST_BYTES_MAX * 4) / 3) + ENVELOPE_BYTES_MAX;

/**
 * What a side reads before it cuts the connection. More than a frame may have, so that a command that is too
 * large is refused by an event, and only nonsense ends the link.
 */
export const RECEIVED_BYTES_MAX = 1024 * 1024;

/** Commands on their way without an acknowledgement: as many, and of all of them as many bytes. */
export const COMMAND_WINDOW = 32;
export const COMMAND_WINDOW_BYTES = 1024 * 1024;

/** Written to a socket and not read by the agent. A window and two of its repetitions fit. */
export const UNREAD_BYTES_MAX = 4 * 1024 * 1024;

/** Frames of one agent that wait to be handled; more stay in the socket. */
export const INBOX_FRAMES_MAX = 64;
export const INBOX_BYTES_MAX = 1024 * 1024;

/** A repetition is sent at most this often: asking again before it arrived does not bring it sooner. */
export const RESEND_EVERY_MS = 1_000;

/** Jobs a hello lists: those an agent holds at most. */
export const HELLO_JOBS_MAX = 1_000;

/** Checkpoints an agent presents, and all of them together: the last one vouches for every row before it. */
export const CHECKPOINTS_PRESENTED_MAX = 4;
export const CHECKPOINTS_PRESENTED_BYTES_MAX = 64 * 1024;

/** A certificate in PEM: of one key, one name and one signature. */
export const CERTIFICATE_CHARS_MAX = 8 * 1024;

/** Authorities that vouch for one server: the current one and the one it replaces, with room. */
export const AUTHORITIES_MAX = 4;

/** Connections that have not proven an agent yet. The oldest one makes room: an agent needs no second. */
export const UNPROVEN_MAX = 500;

/** Texts of an event that go on record or into a row. */
export const EVENT_TEXT_MAX = 4 * 1024;

/** A refilling allowance: so many at once, and so many a second for ever. */
export interface Rate {
  readonly burst: number;
  readonly perSecond: number;
}

/** Per agent, across its connections. */
export const AGENT_RATES = {
  /** Connections. An agent whose link breaks comes back, with a growing pause. */
  session: { burst: 30, perSecond: 0.5 },
  /** Frames of any kind; log data of 252 KiB each come to 50 MB a second. */
  frame: { burst: 1_000, perSecond: 200 },
  /** Events, each a transaction. Ten components that are deployed together send about a hundred. */
  event: { burst: 300, perSecond: 20 },
  /** Asked-for registry access, each a signature. */
  grant: { burst: 60, perSecond: 2 },
  /** Changes of health, each a row on record. More of a minute are one row. */
  health: { burst: 60, perSecond: 0.2 },
} as const satisfies Record<string, Rate>;

/** An agent that wants more than its rates for this long is sent away, and for how long. */
export const THROTTLED_MS_MAX = 60_000;
export const THROTTLED_RETRY_MS = 60_000;

/** A link that held this long was a good one: only then does the pause before the next begin anew. */
export const STABLE_MS = 60_000;

/** A goaway of this code, and a drain, are a server's restart and not the agent's fault: no backoff follows. */
export const DRAINING = "draining";

/** Restarts of servers in a row, without a link that held in between, after which backoff counts all the same. */
export const DRAINS_IN_A_ROW_MAX = 3;
