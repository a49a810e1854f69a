// The life of one attempt of a job, as the server knows it. Events come from the agent's journal in
// order; some can be missing when that journal was lost, so a later event may skip a state, but none
// goes back and nothing changes what has ended.

import { z } from "zod";
import { FAILURE_CODES, type FailureCode, unreachable } from "../failure.ts";
import { Instant } from "../ids.ts";

const Open = { since: Instant, cancelRequested: z.boolean() };

export const JobState = z.discriminatedUnion("status", [
  z.object({ status: z.literal("queued"), since: Instant }),
  /** `cancelRequested`: somebody asked for it to stop; whether it does is the agent's to say. */
  z.object({ status: z.literal("offered"), ...Open }),
  z.object({ status: z.literal("accepted"), ...Open }),
  z.object({ status: z.literal("running"), ...Open }),
  z.object({ status: z.literal("succeeded"), since: Instant }),
  z.object({
    status: z.literal("failed"),
    since: Instant,
    code: z.enum(FAILURE_CODES),
    message: z.string(),
  }),
  z.object({ status: z.literal("cancelled"), since: Instant }),
  /** The agent refused it: nothing ran. */
  z.object({
    status: z.literal("rejected"),
    since: Instant,
    code: z.string(),
    because: z.string(),
  }),
  /** It may have run, and nobody can say how it ended. */
  z.object({ status: z.literal("unknown"), since: Instant, because: z.string() }),
]);
export type JobState = Readonly<z.infer<typeof JobState>>;

export type JobStatus = JobState["status"];

export function isAskedToStop(state: JobState): boolean {
  return "cancelRequested" in state && state.cancelRequested;
}

export type JobEnd =
  | { readonly kind: "succeeded" }
  | { readonly kind: "failed"; readonly code: FailureCode; readonly message: string }
  | { readonly kind: "cancelled" }
  | { readonly kind: "unknown"; readonly because: string };

export type JobEvent = { readonly at: Instant } & (
  | { readonly type: "offer" }
  | { readonly type: "accept" }
  | { readonly type: "reject"; readonly code: string; readonly because: string }
  | { readonly type: "start" }
  | { readonly type: "end"; readonly outcome: JobEnd }
  /** `mayBeHeard`: a state of the server that is lost may have offered what is queued in this one. */
  | { readonly type: "cancel_requested"; readonly mayBeHeard?: boolean }
  /** The agent that had it is gone for good, or lost its memory and knows nothing of it. */
  | { readonly type: "abandon"; readonly because: string; readonly mayBeHeard?: boolean }
);

export const JOB_STATUSES = [
  "queued",
  "offered",
  "accepted",
  "running",
  "succeeded",
  "failed",
  "cancelled",
  "rejected",
  "unknown",
] as const satisfies readonly JobStatus[];

/** The next state; undefined when the event cannot happen there, and the state stays as it is. */
export function advanceJob(state: JobState, event: JobEvent): JobState | undefined {
  switch (state.status) {
    case "queued":
      return advanceQueued(event);
    case "offered":
    case "accepted":
    case "running":
      return advanceOpen(state, event);
    case "succeeded":
    case "failed":
    case "cancelled":
    case "rejected":
    case "unknown":
      return undefined;
    default:
      return unreachable(state);
  }
}

/** Whether the attempt is over and will never change again. */
export function isSettled({ status }: { readonly status: JobStatus }): boolean {
  return status !== "queued" && !isWithAgent({ status });
}

/** Whether an agent may be at work on it, so that only its word can end it. */
export function isWithAgent({ status }: { readonly status: JobStatus }): boolean {
  return status === "offered" || status === "accepted" || status === "running";
}

const MAY_BE_HEARD =
  "it ended before its agent came back to a server that was started anew: it may have run before that";

function advanceQueued(event: JobEvent): JobState | undefined {
  const since = event.at;
  switch (event.type) {
    case "offer":
      return { status: "offered", since, cancelRequested: false };
    // No agent ever heard of it, so it can end here.
    case "cancel_requested":
    case "abandon":
      return event.mayBeHeard
        ? { status: "unknown", since, because: MAY_BE_HEARD }
        : { status: "cancelled", since };
    case "accept":
    case "reject":
    case "start":
    case "end":
      return undefined;
    default:
      return unreachable(event);
  }
}

type OpenState = Extract<JobState, { readonly cancelRequested: boolean }>;

function advanceOpen(state: OpenState, event: JobEvent): JobState | undefined {
  const { status, cancelRequested } = state;
  const since = event.at;
  switch (event.type) {
    case "offer":
      return undefined;
    case "accept":
      return status === "offered" ? { status: "accepted", since, cancelRequested } : undefined;
    // An accepted job is rejected when the world changed between its acceptance and its launch.
    case "reject": {
      const { code, because } = event;
      return status === "running" ? undefined : { status: "rejected", since, code, because };
    }
    case "start":
      return status === "running" ? undefined : { status: "running", since, cancelRequested };
    case "end":
      return ended(event.outcome, since);
    case "cancel_requested":
      return cancelRequested ? undefined : { ...state, cancelRequested: true };
    case "abandon":
      return { status: "unknown", since, because: event.because };
    default:
      return unreachable(event);
  }
}

function ended(outcome: JobEnd, since: Instant): JobState {
  switch (outcome.kind) {
    case "succeeded":
    case "cancelled":
      return { status: outcome.kind, since };
    case "failed":
      return { status: "failed", since, code: outcome.code, message: outcome.message };
    case "unknown":
      return { status: "unknown", since, because: outcome.because };
    default:
      return unreachable(outcome);
  }
}
