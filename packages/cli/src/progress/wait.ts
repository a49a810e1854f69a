// Waiting with reasons: look, decide, show what is still missing and why, look again.

import { setTimeout as sleep } from "node:timers/promises";
import { asFailure } from "@exclave/core";
import type { Display } from "../output/display.ts";
import { durationText } from "../program/arguments.ts";
import { CliProblem, type ProblemOptions } from "../program/problem.ts";

export type Verdict = { readonly lines: readonly string[] } & (
  | { readonly kind: "done" }
  | { readonly kind: "failed"; readonly because: string; readonly endsWhen?: string | undefined }
  /** Without `endsWhen` waiting longer is all it takes. */
  | { readonly kind: "waiting"; readonly missing: string; readonly endsWhen?: string | undefined }
);

export interface WaitOptions<Seen> {
  readonly what: string;
  readonly look: () => Promise<Seen>;
  readonly judge: (seen: Seen) => Verdict;
  readonly display: Display;
  readonly signal: AbortSignal;
  readonly now: () => number;
  readonly timeoutMs: number;
  readonly everyMs?: number;
}

/** Returns what was seen last, once it is as wanted; ends with a `CliProblem` otherwise. */
export async function waitFor<Seen>(options: WaitOptions<Seen>): Promise<Seen> {
  const { what, judge, display, signal, now, timeoutMs, everyMs = 400 } = options;
  const endsAt = now() + timeoutMs;
  try {
    for (;;) {
      const seen = await tryToLook(options);
      const verdict = seen === undefined ? undefined : judge(seen);
      display.update(verdict?.lines ?? ["the server cannot be reached; still trying"]);
      if (verdict?.kind === "done") return seen as Seen;
      if (verdict?.kind === "failed") {
        throw new CliProblem("failed", verdict.because, hintOf(verdict.endsWhen));
      }
      if (now() >= endsAt) {
        const missing = verdict?.missing ?? "the server to answer";
        throw new CliProblem(
          "timeout",
          `${what} is not done after ${durationText(timeoutMs)}: it waits for ${missing}`,
          {
            hint: "it goes on by itself; wait longer with --timeout",
            ...hintOf(verdict?.endsWhen),
          },
        );
      }
      await sleep(everyMs, undefined, { signal });
    }
  } finally {
    display.end();
  }
}

/** What only somebody's word ends is not ended by waiting longer. */
function hintOf(endsWhen: string | undefined): ProblemOptions {
  return endsWhen === undefined ? {} : { hint: `it goes on when ${endsWhen}` };
}

/** A server that is away for a moment is a reason to go on waiting, and nothing else is. */
async function tryToLook<Seen>({ look }: WaitOptions<Seen>): Promise<Seen | undefined> {
  try {
    return await look();
  } catch (reason) {
    if (asFailure(reason).code === "unavailable") return undefined;
    throw reason;
  }
}
