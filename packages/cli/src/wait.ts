// Waiting with reasons: look, decide, show what is still missing and why, look again.

import { setTimeout as sleep } from "node:timers/promises";
import { asFailure } from "@exclave/core";
import { durationText } from "./arguments.ts";
import type { Display } from "./display.ts";
import { CliProblem } from "./problem.ts";

export type Verdict =
  | { readonly kind: "done"; readonly lines: readonly string[] }
  | { readonly kind: "failed"; readonly lines: readonly string[]; readonly because: string }
  | { readonly kind: "waiting"; readonly lines: readonly string[]; readonly missing: string };

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
  let missing = "the first look";
  try {
    for (;;) {
      const seen = await tryToLook(options);
      const verdict = seen === undefined ? undefined : judge(seen);
      display.update(verdict?.lines ?? ["the server cannot be reached; still trying"]);
      if (verdict?.kind === "done") return seen as Seen;
      if (verdict?.kind === "failed") throw new CliProblem("failed", verdict.because);
      missing = verdict?.missing ?? "the server to answer";
      if (now() >= endsAt) {
        throw new CliProblem(
          "timeout",
          `${what} is not done after ${durationText(timeoutMs)}: it waits for ${missing}`,
          {
            hint: "it goes on by itself; wait longer with --timeout",
          },
        );
      }
      await sleep(everyMs, undefined, { signal });
    }
  } finally {
    display.end();
  }
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
