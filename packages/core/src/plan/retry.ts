// Whether a failed operation is retried by itself, and when.

import type { FailedAttempts } from "../consequence/failed-attempts.ts";
import { FAILURES, unreachable } from "../failure.ts";
import { Instant } from "../ids.ts";
import { byCommand, type HoldEnd } from "./hold.ts";
import type { PlanContext } from "./plan-context.ts";

/** With the pauses below: six attempts in the first ten minutes, whatever the cause, and no more. */
export const ATTEMPTS_MAX = 6;
const BACKOFF_FIRST_MS = 2_000;
const BACKOFF_FACTOR = 4;
const BACKOFF_MAX_MS = 300_000;

export type RetryDecision =
  | { readonly kind: "now" }
  | { readonly kind: "later"; readonly until: Instant }
  | { readonly kind: "not-by-itself"; readonly because: string };

export interface RetryOptions {
  /** Each attempt brings new credentials along: those that were refused may have been out of date. */
  readonly renewsCredentials?: boolean;
}

export function decideRetry(
  { code, at, attempts, mayRepeat }: Pick<FailedAttempts, "code" | "at" | "attempts" | "mayRepeat">,
  now: Instant,
  options: RetryOptions = {},
): RetryDecision {
  if (mayRepeat === false) {
    const because = "it may have run, and it must not be run twice without somebody's word";
    return { kind: "not-by-itself", because };
  }
  const isRenewed = options.renewsCredentials === true && code === "unauthenticated";
  const retry = isRenewed ? "backoff" : FAILURES[code].retry;
  switch (retry) {
    case "never":
      return { kind: "not-by-itself", because: "trying the same again cannot help" };
    case "after-change":
      return { kind: "not-by-itself", because: "something has to change first" };
    case "until-gone":
      return afterPause(at, attempts, now);
    case "backoff":
      return attempts >= ATTEMPTS_MAX
        ? { kind: "not-by-itself", because: `it failed ${attempts} times in a row` }
        : afterPause(at, attempts, now);
    default:
      return unreachable(retry);
  }
}

function afterPause(at: Instant, attempts: number, now: Instant): RetryDecision {
  // It happened by a clock that was ahead and is right again: nobody knows how long ago that is.
  if (at > now) return { kind: "now" };
  const until = Instant.parse(at + backoffMs(attempts));
  return until > now ? { kind: "later", until } : { kind: "now" };
}

/** 2 s after the first failure, four times as long after each further one, at most 5 minutes. */
export function backoffMs(attempts: number): number {
  const exponent = Math.min(Math.max(0, attempts - 1), 10);
  return Math.min(BACKOFF_FIRST_MS * BACKOFF_FACTOR ** exponent, BACKOFF_MAX_MS);
}

/** What somebody types to have it retried: a deploy is refused where everything is to go. */
export function askForRetry(
  { install, mode }: Pick<PlanContext, "install" | "mode">,
  otherwise?: string,
): HoldEnd {
  const verb = mode === "destroyed" ? "destroy" : "deploy";
  return byCommand(`exclave install ${verb} ${install}`, "asks for a retry", otherwise);
}
