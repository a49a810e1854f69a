// Every way of not being able to do what was asked, as a closed list. The code decides two things
// that people and machines must agree on: whether trying again can help, and who has to act.

import { systemFailure } from "./system-failure.ts";

export type Retry = "never" | "backoff" | "until-gone" | "after-change";
export type Actor = "vendor" | "customer" | "operator" | "nobody";

export interface FailureRule {
  /**
   * never: the same input fails again. backoff: a few retries with growing pauses. until-gone: the
   * cause lies in the surroundings and goes away, so it is retried with backoff, without an end.
   * after-change: something else must change first.
   */
  readonly retry: Retry;
  readonly actor: Actor;
  readonly httpStatus: number;
  readonly means: string;
}

// biome-ignore format: a table reads as a table.
export const FAILURES = {
  invalid:         { retry: "never",        actor: "vendor",   httpStatus: 400, means: "the input is wrong" },
  unauthenticated: { retry: "after-change", actor: "operator", httpStatus: 401, means: "the caller did not prove who it is" },
  forbidden:       { retry: "after-change", actor: "operator", httpStatus: 403, means: "the caller may not do this" },
  not_found:       { retry: "after-change", actor: "vendor",   httpStatus: 404, means: "there is no such thing" },
  conflict:        { retry: "after-change", actor: "vendor",   httpStatus: 409, means: "the thing is in a state that does not allow it" },
  too_large:       { retry: "never",        actor: "vendor",   httpStatus: 413, means: "the input is over a limit" },
  rate_limited:    { retry: "until-gone",   actor: "nobody",   httpStatus: 429, means: "too many requests at once" },
  unavailable:     { retry: "until-gone",   actor: "operator", httpStatus: 503, means: "something needed cannot be reached right now" },
  timeout:         { retry: "backoff",      actor: "operator", httpStatus: 504, means: "it took longer than its deadline" },
  disk_full:       { retry: "until-gone",   actor: "customer", httpStatus: 507, means: "there is no room left to work in" },
  signature:       { retry: "never",        actor: "operator", httpStatus: 422, means: "a signature is missing or wrong" },
  expired:         { retry: "until-gone",   actor: "nobody",   httpStatus: 422, means: "the manifest's time is over or not yet come" },
  replayed:        { retry: "backoff",      actor: "operator", httpStatus: 422, means: "the manifest was used before" },
  unreleased:      { retry: "never",        actor: "operator", httpStatus: 422, means: "no verified release statement says so" },
  downgrade:       { retry: "after-change", actor: "vendor",   httpStatus: 422, means: "the release is older than the install may go back to" },
  wrong_install:   { retry: "never",        actor: "operator", httpStatus: 422, means: "the manifest is meant for another install" },
  policy:          { retry: "after-change", actor: "customer", httpStatus: 422, means: "the customer's policy does not allow it" },
  not_synced:      { retry: "backoff",      actor: "nobody",   httpStatus: 422, means: "a digest is not in the install's own registry" },
  outputs_lost:    { retry: "backoff",      actor: "nobody",   httpStatus: 422, means: "what another component gave out is not kept in the install any more" },
  plugin:          { retry: "never",        actor: "vendor",   httpStatus: 422, means: "the plugin said it cannot do this" },
  tool:            { retry: "backoff",      actor: "vendor",   httpStatus: 422, means: "a program the plugin ran failed" },
  lost:            { retry: "backoff",      actor: "nobody",   httpStatus: 422, means: "the job ended and left no result" },
  killed:          { retry: "backoff",      actor: "nobody",   httpStatus: 422, means: "a signal from outside the job ended its program" },
  out_of_memory:   { retry: "backoff",      actor: "vendor",   httpStatus: 422, means: "the job used more memory than its limit" },
  poisoned:        { retry: "never",        actor: "operator", httpStatus: 422, means: "the job was resumed too often without ending" },
  cancelled:       { retry: "after-change", actor: "nobody",   httpStatus: 422, means: "somebody asked for it to stop" },
  bug:             { retry: "never",        actor: "operator", httpStatus: 500, means: "a state that cannot happen" },
} as const satisfies Record<string, FailureRule>;

export type FailureCode = keyof typeof FAILURES;
export const FAILURE_CODES = Object.keys(FAILURES) as [FailureCode, ...FailureCode[]];

export interface FailureOptions {
  readonly cause?: unknown;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** A code from the list, one sentence fit for a vendor's eyes, and the raw reason as `cause`. */
export class Failure extends Error {
  readonly code: FailureCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: FailureCode, message: string, options: FailureOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "Failure";
    this.code = code;
    this.details = options.details ?? {};
  }

  /** By what it is and not by which copy of this class made it: a plugin is bundled with its own. */
  static override [Symbol.hasInstance](value: unknown): value is Failure {
    return (
      value instanceof Error &&
      value.name === "Failure" &&
      "code" in value &&
      String(value.code) in FAILURES
    );
  }

  get rule(): FailureRule {
    return FAILURES[this.code];
  }
}

/** What any thrown thing is to us: a Failure as it is, the system's refusal in words, else a bug. */
export function asFailure(reason: unknown): Failure {
  if (reason instanceof Failure) return reason;
  const system = systemFailure(reason);
  if (system) return new Failure(system.code, system.message, { cause: reason });
  const message = reason instanceof Error ? reason.message : String(reason);
  return new Failure("bug", message, { cause: reason });
}

/** Ends a switch over a union: a new member does not compile until it is handled. */
export function unreachable(value: never): never {
  throw new Failure("bug", `unexpected value ${JSON.stringify(value)}`);
}
