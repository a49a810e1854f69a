// How a job ended, from what is known: the exit its runtime saw, the result it said, and whether
// somebody asked for its end.

import { type FailureCode, unreachable } from "../failure.ts";
import type { Effect } from "../manifest/manifest.ts";
import type { ResultLine } from "./job-line.ts";
import type { JobEnd } from "./job-state.ts";

/** How a runtime saw a job's program end. */
export type JobExit =
  | { readonly kind: "code"; readonly code: number }
  | { readonly kind: "signal"; readonly signal: string }
  | { readonly kind: "out-of-memory" }
  | { readonly kind: "deadline" }
  /** It went over another of its limits and was ended for it. */
  | { readonly kind: "over-limit"; readonly because: string }
  /** It was asked to end and did; its runtime forgets how. */
  | { readonly kind: "stopped" }
  /** It is gone and left no word: its keeper was killed with it. */
  | { readonly kind: "lost"; readonly because: string };

export interface EndFacts {
  readonly exit: JobExit;
  readonly result: ResultLine | undefined;
  readonly isCancelled: boolean;
  readonly effect: Effect;
  /** Why what it said cannot count, if it went over a limit. */
  readonly refused?: string | undefined;
}

export function judgeEnd({ exit, result, isCancelled, effect, refused }: EndFacts): JobEnd {
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
  const because = `it left no result: ${exitInWords(exit)}`;
  if (exit.kind === "signal" || exit.kind === "stopped")
    return interruptedEnd(effect, "killed", because);
  return exit.kind === "lost" ? interruptedEnd(effect, "lost", because) : failed("lost", because);
}

/** The end of what may have begun and was cut off: nobody can say how far it came. */
export function interruptedEnd(effect: Effect, code: FailureCode, because: string): JobEnd {
  return effect === "at-most-once" ? { kind: "unknown", because } : failed(code, because);
}

/** Ends that the runtime brought about; what the job said while going down is beside the point. */
function cutShort(exit: JobExit): JobEnd | undefined {
  if (exit.kind === "deadline") return failed("timeout", "it ran longer than its deadline");
  if (exit.kind === "over-limit") return failed("too_large", exit.because);
  if (exit.kind === "out-of-memory") {
    return failed("out_of_memory", "it used more memory than its limit");
  }
  return undefined;
}

export function exitInWords(exit: JobExit): string {
  switch (exit.kind) {
    case "code":
      return `its program ended with code ${exit.code}`;
    case "signal":
      return `its program was ended by ${exit.signal}`;
    case "stopped":
      return "it was stopped";
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

function failed(code: FailureCode, message: string): JobEnd {
  return { kind: "failed", code, message };
}
