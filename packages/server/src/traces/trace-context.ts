// Which trace something belongs to, in the words of W3C trace context. Whoever calls the API with a
// `traceparent` header finds the jobs that came of it in the same trace.

import { Instant } from "@exclave/core";
import { z } from "zod";

export interface TraceContext {
  readonly traceId: string;
  readonly spanId: string;
}

/** Kept with what somebody asked for, so that its jobs continue the trace of the request. */
export const Trace = z.object({ traceId: z.string(), spanId: z.string(), at: Instant });
export type Trace = z.infer<typeof Trace>;

/** A repair a week later is no part of the request that once made the install. */
const CONTINUES_MS = 60 * 60_000;

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-|$)/;
const NO_TRACE = "0".repeat(32);
const NO_SPAN = "0".repeat(16);
const LENGTH_MAX = 512;

/** What a caller says its own span is; undefined for whatever is not well-formed, as the specification wants. */
export function readTraceparent(header: string | undefined): TraceContext | undefined {
  if (header === undefined || header.length > LENGTH_MAX) return undefined;
  const [, version, traceId = "", spanId = "", , more] = TRACEPARENT.exec(header) ?? [];
  if (version === undefined || version === "ff" || (version === "00" && more === "-")) {
    return undefined;
  }
  return traceId === NO_TRACE || spanId === NO_SPAN ? undefined : { traceId, spanId };
}

export function continuedTrace(trace: Trace | null, now: Instant): Trace | null {
  return trace !== null && now - trace.at <= CONTINUES_MS ? trace : null;
}
