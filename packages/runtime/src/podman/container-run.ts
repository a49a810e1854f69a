// What an engine says of a container, as what is known of a job. Plain decisions: the driver asks.

import { constants } from "node:os";
import { z } from "zod";
import type { JobExit, JobRun } from "../job-runtime.ts";

/** The part of an engine's answer that says how a container is. */
export const Container = z.object({
  Id: z.string(),
  Config: z.object({ Labels: z.record(z.string(), z.string()).nullish() }),
  State: z.object({
    Status: z.string(),
    ExitCode: z.number(),
    OOMKilled: z.boolean().default(false),
    Pid: z.number().default(0),
    StartedAt: z.string(),
  }),
});
export type Container = z.infer<typeof Container>;

/** Why the driver ended a job or kept it from starting, or what it found out about an end. */
export const Verdict = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("deadline") }),
  z.object({ kind: z.literal("over-limit"), because: z.string() }),
  z.object({ kind: z.literal("stopped") }),
  z.object({ kind: z.literal("out-of-memory") }),
  z.object({ kind: z.literal("signal"), signal: z.string() }),
  z.object({ kind: z.literal("lost"), because: z.string() }),
]);
export type Verdict = z.infer<typeof Verdict>;

export function jobRunOf(container: Container | undefined, verdict: Verdict | undefined): JobRun {
  if (!container) return { kind: "absent" };
  switch (container.State.Status) {
    case "created":
    case "configured":
    case "initialized":
      return verdict
        ? { kind: "exited", exit: verdict }
        : { kind: "waiting", because: "its container is made and not started" };
    case "exited":
    case "stopped":
    case "dead":
      return { kind: "exited", exit: verdict ?? exitOf(container) };
    default:
      // Running, paused, stopping, removing: it must not be called over while it may act.
      return verdict?.kind === "lost" ? { kind: "exited", exit: verdict } : { kind: "running" };
  }
}

/** Whether a start ever reached it. Engines tell "never" as the first day of the first year. */
export function wasStarted({ State }: Container): boolean {
  return Date.parse(State.StartedAt) > 0;
}

function exitOf({ State: { ExitCode, OOMKilled } }: Container): JobExit {
  if (OOMKilled && ExitCode !== 0) return { kind: "out-of-memory" };
  // Nobody saw it end: what watched over the container was killed, too.
  if (ExitCode < 0 || ExitCode > 255) {
    return { kind: "lost", because: "what watched over its container was killed with it" };
  }
  const signal = signalOf(ExitCode);
  return signal === undefined ? { kind: "code", code: ExitCode } : { kind: "signal", signal };
}

/** Engines tell a death by signal as 128 and its number; a program may also exit so by itself. */
export function signalOf(code: number): string | undefined {
  const found = Object.entries(constants.signals).find(([, number]) => number === code - 128);
  return found?.[0];
}
