// What a server can make an agent keep or do, whatever it says.

/** Jobs in the journal, ended ones included until the server has their end: each is a manifest on disk. */
export const JOBS_HELD_MAX = 200;

/** Own events the server has not acknowledged. Over this no command is taken: each would add to them. */
export const EVENTS_KEPT_MAX = 20_000;

/** Components whose status is looked up on the agent's own schedule, and how often at most. */
export const SCHEDULED_MAX = 500;
export const STATUS_EVERY_MS_MIN = 1_000;

/** How far a clock may be off before it matters. */
export const CLOCK_SKEW_MS = 5 * 60_000;

/** Log bytes on their way: they wait in this process's memory until the socket takes them. */
export const LOG_CREDIT_BYTES_MAX = 4 * 1024 * 1024;
