// How a failure is counted: what belongs together, and what clears the count. Whether something is
// retried, and when it is given up, depends on it.

import { z } from "zod";
import { FAILURE_CODES } from "../failure.ts";
import { Digest, Instant } from "../ids.ts";
import type { JobFailure } from "./job-failure.ts";

/** How often in a row something failed, and how it ended the last time. */
export const FailedAttempts = z.object({
  code: z.enum(FAILURE_CODES),
  message: z.string(),
  /** When the last one ended. */
  at: Instant,
  /** How many in a row. */
  attempts: z.int().positive(),
  /** What was tried: a failure counts only against the same again. */
  key: Digest.optional(),
  /** False when it may have run and must not run twice by itself. */
  mayRepeat: z.boolean().optional(),
});
export type FailedAttempts = Readonly<z.infer<typeof FailedAttempts>>;

export const ComponentOperation = z.enum(["plan", "apply", "destroy"]);
export type ComponentOperation = z.infer<typeof ComponentOperation>;

export const LastFailure = FailedAttempts.extend({ operation: ComponentOperation });
export type LastFailure = Readonly<z.infer<typeof LastFailure>>;

/** Attempts count as long as the same thing is tried; something new starts from one. */
export function countFailure(
  previous: FailedAttempts | null,
  key: Digest | undefined,
  { code, message, mayRepeat }: JobFailure,
  at: Instant,
): FailedAttempts {
  const attempts = previous && previous.key === key ? previous.attempts + 1 : 1;
  return {
    code,
    message,
    at,
    attempts,
    ...(key === undefined ? {} : { key }),
    ...(mayRepeat ? {} : { mayRepeat }),
  };
}

/** A plan and its apply are two halves of one attempt to deploy; a destroy is counted alone. */
export function countComponentFailure(
  previous: LastFailure | null,
  operation: ComponentOperation,
  key: Digest | undefined,
  failure: JobFailure,
  at: Instant,
): LastFailure {
  const isSameSort = (previous?.operation === "destroy") === (operation === "destroy");
  return { ...countFailure(isSameSort ? previous : null, key, failure, at), operation };
}

/**
 * What is left of a failure after a success. A plan that works says nothing about the apply: were the
 * count cleared, an apply that always fails would be planned and tried without end.
 */
export function failureAfterSuccess(
  previous: LastFailure | null,
  operation: ComponentOperation,
): LastFailure | null {
  return operation === "plan" && previous?.operation === "apply" ? previous : null;
}
