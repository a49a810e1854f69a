// Whether a failed operation is tried again by itself, and when.

import { FAILURES, type FailureCode, unreachable } from "../failure.ts";
import { Instant } from "../ids.ts";
import type { World } from "./world.ts";

export const ATTEMPTS_MAX = 8;
const BACKOFF_FIRST_MS = 2_000;
const BACKOFF_MAX_MS = 300_000;

export type RetryDecision =
  | { readonly kind: "now" }
  | { readonly kind: "later"; readonly until: Instant }
  | { readonly kind: "not-by-itself"; readonly because: string };

export function decideRetry(
  { code, at, attempts }: { code: FailureCode; at: Instant; attempts: number },
  now: Instant,
): RetryDecision {
  const { retry } = FAILURES[code];
  switch (retry) {
    case "never":
      return { kind: "not-by-itself", because: "trying the same again cannot help" };
    case "after-change":
      return { kind: "not-by-itself", because: "something has to change first" };
    case "backoff": {
      if (attempts >= ATTEMPTS_MAX) {
        return { kind: "not-by-itself", because: `it failed ${attempts} times in a row` };
      }
      const until = Instant.parse(at + backoffMs(attempts));
      return until > now ? { kind: "later", until } : { kind: "now" };
    }
    default:
      return unreachable(retry);
  }
}

/** 2 s after the first failure, twice as long after each further one, at most 5 minutes. */
export function backoffMs(attempts: number): number {
  return Math.min(BACKOFF_FIRST_MS * 2 ** Math.max(0, attempts - 1), BACKOFF_MAX_MS);
}

/** What somebody types to have it tried again: a deploy is refused where everything is to go. */
export function askForRetry({ install, mode }: Pick<World, "install" | "mode">): string {
  const verb = mode === "destroyed" ? "destroy" : "deploy";
  return `\`exclave install ${verb} ${install}\` asks for a retry`;
}
