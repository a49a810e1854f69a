// Spans of requests and jobs. A job's ids come from its own, so a span that is exported twice is the same span.

import { hash } from "node:crypto";
import { isSettled } from "@exclave/core";
import type { JobRow } from "../store/rows.ts";
import type { TraceContext } from "./trace-context.ts";

export interface Span extends TraceContext {
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: "server" | "internal" | "consumer";
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly attributes: Readonly<Record<string, string | number>>;
  /** Why it failed; undefined if it did not. */
  readonly error?: string | undefined;
}

export interface AnsweredCall {
  readonly own: TraceContext;
  readonly caller: TraceContext | undefined;
  readonly name: string;
  readonly route: string;
  readonly method: string;
  readonly status: number;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
}

export function requestSpan(call: AnsweredCall): Span {
  const { own, caller, name, route, method, status, startedAtMs, endedAtMs } = call;
  return {
    ...own,
    ...(caller && { parentSpanId: caller.spanId }),
    name,
    kind: "server",
    startedAtMs,
    endedAtMs,
    attributes: {
      "http.request.method": method,
      "http.route": route,
      "http.response.status_code": status,
    },
    // A call that was refused did what it should; the caller's span is where that is an error.
    ...(status >= 500 && { error: `answered ${status}` }),
  };
}

/** The whole job, its wait for a start and its run, once it is over. */
export function jobSpans(job: JobRow): readonly Span[] {
  const { id, attempt, createdAt, startedAt, endedAt, state, failure, trace } = job;
  if (!isSettled(state) || endedAt === null) return [];
  const traceId = trace?.traceId ?? idFrom(`trace ${id}`, 32);
  const whole: Span = {
    traceId,
    spanId: idFrom(`job ${id} ${attempt}`, 16),
    ...(trace && { parentSpanId: trace.spanId }),
    name: job.component === null ? job.operation : `${job.operation} ${job.component}`,
    kind: "consumer",
    startedAtMs: createdAt,
    endedAtMs: atLeast(createdAt, endedAt),
    attributes: attributesOf(job),
    ...(state.status !== "succeeded" && { error: failure?.message ?? state.status }),
  };
  if (startedAt === null) return [whole];
  const beganAt = atLeast(createdAt, startedAt);
  const part = (name: string, startedAtMs: number, endedAtMs: number): Span => ({
    traceId,
    spanId: idFrom(`${name} ${id} ${attempt}`, 16),
    parentSpanId: whole.spanId,
    name,
    kind: "internal",
    startedAtMs,
    endedAtMs: atLeast(startedAtMs, endedAtMs),
    attributes: {},
  });
  return [whole, part("wait", createdAt, beganAt), part("run", beganAt, endedAt)];
}

function attributesOf(job: JobRow): Span["attributes"] {
  const { id, attempt, operation, audience, install, component, release, exitCode, failure } = job;
  const told = {
    "exclave.job": id,
    "exclave.attempt": attempt,
    "exclave.operation": operation,
    "exclave.audience": audience,
    "exclave.install": install,
    "exclave.component": component,
    "exclave.release": release,
    "exclave.outcome": job.state.status,
    "exclave.failure": failure?.code,
    "process.exit.code": exitCode,
  };
  return Object.fromEntries(
    Object.entries(told).filter(
      (pair): pair is [string, string | number] => pair[1] !== null && pair[1] !== undefined,
    ),
  );
}

/** Two clocks may have told them: no span ends before it began. */
function atLeast(start: number, end: number): number {
  return Math.max(start, end);
}

function idFrom(text: string, length: number): string {
  return hash("sha256", text, "hex").slice(0, length);
}
