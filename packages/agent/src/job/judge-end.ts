// How a job ended, from what is known: the exit its runtime saw, the result it said, and whether
// somebody asked for its end.

import type { JobOutcome } from "@exclave/api";
import { type Effect, type FailureCode, type ResultLine, unreachable } from "@exclave/core";
import type { JobExit } from "@exclave/runtime";

export interface EndFacts {
  readonly exit: JobExit;
  readonly result: ResultLine | undefined;
  readonly isCancelled: boolean;
  readonly effect: Effect;
  /** Why what it said cannot count, if it went over a limit. */
  readonly refused?: string | undefined;
}

export function judgeEnd({ exit, result, isCancelled, effect, refused }: EndFacts): JobOutcome {
  // Without one of its values it did not do what it was asked for, whatever it says of itself.
  if (refused !== undefined && result?.ok) return failed("too_large", refused);
  // What was done is done, however the program went down afterwards.
  if (result?.ok) return { kind: "succeeded" };
  const cut = cutShort(exit);
  if (cut) return cut;
  if (isCancelled) return { kind: "cancelled" };
  if (result) {
    const { code = "plugin", message = "the plugin gave no reason" } = result.failure ?? {};
    return failed(code, message);
  }
  const because = `it left no result: ${inWords(exit)}`;
  const wasEnded = exit.kind === "lost" || exit.kind === "signal";
  if (wasEnded && effect === "at-most-once") return { kind: "unknown", because };
  return failed(exit.kind === "signal" ? "killed" : "lost", because);
}

/** Ends that the runtime brought about; what the job said while going down is beside the point. */
function cutShort(exit: JobExit): JobOutcome | undefined {
  if (exit.kind === "deadline") return failed("timeout", "it ran longer than its deadline");
  if (exit.kind === "over-limit") return failed("too_large", exit.because);
  if (exit.kind === "out-of-memory") {
    return failed("out_of_memory", "it used more memory than its limit");
  }
  return undefined;
}

export function inWords(exit: JobExit): string {
  switch (exit.kind) {
    case "code":
      return `its program ended with code ${exit.code}`;
    case "signal":
      return `its program was ended by ${exit.signal}`;
    case "deadline":
      return "its deadline passed";
    case "out-of-memory":
      return "it ran out of memory";
    case "lost":
    case "over-limit":
      return exit.because;
    default:
      return unreachable(exit);
  }
}

function failed(code: FailureCode, message: string): JobOutcome {
  return { kind: "failed", code, message };
}
