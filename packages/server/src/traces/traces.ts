// Follows a request through the server, so that what it asks for can be kept with the trace it belongs to.

import { AsyncLocalStorage } from "node:async_hooks";
import { randomBytes } from "node:crypto";
import { Instant } from "@exclave/core";
import type { JobRow } from "../store/rows.ts";
import type { SpanExporter } from "./span-exporter.ts";
import { jobSpans, requestSpan } from "./spans.ts";
import { readTraceparent, type Trace, type TraceContext } from "./trace-context.ts";

export interface Traces {
  /** Does the work of one call; what it asks for is part of the call's trace. */
  during<Result>(call: TracedCall, work: () => Promise<Result>): Promise<Result>;
  /** Of the call that is being answered; null outside of one, and where nobody collects traces. */
  current(): Trace | null;
  /** A job as an agent's word left it; exported when it is over. */
  jobTold(job: JobRow): void;
  readonly droppedSpans: number;
  stop(): Promise<void>;
}

export interface TracedCall {
  readonly name: string;
  readonly route: string;
  readonly method: string;
  readonly traceparent: string | undefined;
  /** Read when the work has ended. */
  readonly status: (reason?: unknown) => number;
}

export interface TracesOptions {
  readonly now: () => number;
  /** Nothing is traced without one. */
  readonly exporter: SpanExporter | undefined;
}

export function createTraces({ now, exporter }: TracesOptions): Traces {
  const calls = new AsyncLocalStorage<Trace>();
  return {
    async during(call, work) {
      if (!exporter) return work();
      const caller = readTraceparent(call.traceparent);
      const own = spanWithin(caller);
      const startedAtMs = now();
      const { name, route, method } = call;
      const span = (status: number) =>
        requestSpan({ own, caller, name, route, method, status, startedAtMs, endedAtMs: now() });
      try {
        const at = Instant.parse(Math.floor(startedAtMs));
        const result = await calls.run({ ...own, at }, work);
        exporter.add([span(call.status())]);
        return result;
      } catch (reason) {
        exporter.add([span(call.status(reason))]);
        throw reason;
      }
    },
    current: () => calls.getStore() ?? null,
    jobTold: (job) => exporter?.add(jobSpans(job)),
    get droppedSpans() {
      return exporter?.dropped ?? 0;
    },
    async stop() {
      await exporter?.stop();
    },
  };
}

function spanWithin(caller: TraceContext | undefined): TraceContext {
  return {
    traceId: caller?.traceId ?? randomBytes(16).toString("hex"),
    spanId: randomBytes(8).toString("hex"),
  };
}
