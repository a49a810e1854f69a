// What the end of a job says about a retry: the code of its failure, and whether the same
// operation may be retried without somebody's word.

import { FAILURE_CODES, type FailureCode, unreachable } from "../failure.ts";
import type { Instant } from "../ids.ts";
import type { JobEvent } from "../job/job-state.ts";
import type { Effect } from "../manifest/manifest.ts";

/** Moves that end a job. */
export type JobSettling = Extract<JobEvent, { type: "reject" | "end" | "abandon" }>;

export interface JobFailure {
  readonly code: FailureCode;
  readonly message: string;
  /** False when the operation may have begun and its effect allows it at most once. */
  readonly mayRepeat: boolean;
}

export interface EndedJobFacts {
  readonly effect: Effect;
  /** Null when no agent ever said that it began. */
  readonly startedAt: Instant | null;
}

/** Undefined when the job succeeded. */
export function failureOf(move: JobSettling, job: EndedJobFacts): JobFailure | undefined {
  const mayRepeat = job.effect !== "at-most-once" || !mayHaveBegun(move, job);
  if (move.type === "reject") {
    return { code: rejectedCode(move.code), message: move.because, mayRepeat };
  }
  if (move.type === "abandon") return { code: "lost", message: move.because, mayRepeat };
  switch (move.outcome.kind) {
    case "succeeded":
      return undefined;
    case "failed":
      return { code: move.outcome.code, message: move.outcome.message, mayRepeat };
    case "cancelled":
      return { code: "cancelled", message: "somebody asked for it to stop", mayRepeat };
    case "unknown":
      return { code: "lost", message: move.outcome.because, mayRepeat };
    default:
      return unreachable(move.outcome);
  }
}

/**
 * A rejection is the agent's word that nothing ran, unless it is refused for having come before: what became of it then
 * was told to a state of the server that is lost. `unknown` is nobody's word on anything.
 */
function mayHaveBegun(move: JobSettling, { startedAt }: EndedJobFacts): boolean {
  if (move.type === "reject") return rejectedCode(move.code) === "replayed";
  if (move.type === "abandon" || move.outcome.kind === "unknown") return true;
  return startedAt !== null;
}

const CODES: ReadonlySet<string> = new Set(FAILURE_CODES);

/** An agent of another version may refuse for a reason that has no code here yet. */
function rejectedCode(code: string): FailureCode {
  if (code === "stale_attempt") return "replayed";
  return CODES.has(code) ? (code as FailureCode) : "conflict";
}
