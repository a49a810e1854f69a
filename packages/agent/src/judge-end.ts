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
}

export function judgeEnd({ exit, result, isCancelled, effect }: EndFacts): JobOutcome {
  // What was done is done, however the program went down afterwards.
  if (result?.ok) return { kind: "succeeded" };
  const cut = cutShort(exit);
  if (cut) return cut;
  if (isCancelled) return { kind: "cancelled" };
  if (result) {
    const { code = "plugin", message = "the plugin gave no reason" } = result.failure ?? {};
    return failed(code, message);
  }
  if (exit.kind === "lost" && effect === "at-most-once") {
    return { kind: "unknown", because: exit.because };
  }
  return failed("lost", `it left no result: ${inWords(exit)}`);
}

/** Ends that the runtime brought about; what the job said while going down is beside the point. */
function cutShort(exit: JobExit): JobOutcome | undefined {
  if (exit.kind === "deadline") return failed("timeout", "it ran longer than its deadline");
  if (exit.kind === "out-of-memory") {
    return failed("out_of_memory", "it used more memory than its limit");
  }
  return undefined;
}

function inWords(exit: JobExit): string {
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
      return exit.because;
    default:
      return unreachable(exit);
  }
}

function failed(code: FailureCode, message: string): JobOutcome {
  return { kind: "failed", code, message };
}
