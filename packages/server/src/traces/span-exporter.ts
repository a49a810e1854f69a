// Sends spans to a collector, in batches and behind everything else. A collector that is away costs
// spans, which are counted, and never a request or a job.

import type { Timers } from "@exclave/api";
import { otlpTraces } from "./otlp.ts";
import type { TraceSettings } from "./read-settings.ts";
import type { Span } from "./spans.ts";

export interface SpanExporter {
  add(spans: readonly Span[]): void;
  /** Spans that nobody will see: the queue was full, or the collector did not take them. */
  readonly dropped: number;
  /** Sends what is left, once. */
  stop(): Promise<void>;
}

export interface SpanExporterOptions {
  readonly settings: TraceSettings;
  readonly version: string;
  readonly timers: Pick<Timers, "every" | "sleep">;
  readonly log: { warn(details: object, message: string): void };
  readonly post?: typeof postSpans;
}

const QUEUE_MAX = 4_096;
const BATCH_MAX = 512;
const EVERY_MS = 2_000;
const TIMEOUT_MS = 10_000;
const ATTEMPTS_MAX = 3;
const BACKOFF_MS = 1_000;
const RETRIED = [429, 502, 503, 504];

export function createSpanExporter(options: SpanExporterOptions): SpanExporter {
  const { settings, version, timers, log, post = postSpans } = options;
  const resource = { serviceName: settings.serviceName, serviceVersion: version };
  let queue: Span[] = [];
  let dropped = 0;
  let isAway = false;
  let isStopped = false;
  let sending: Promise<void> = Promise.resolve();
  let isSending = false;
  const stopTicking = timers.every(EVERY_MS, flush);

  return {
    add(spans) {
      const room = Math.max(0, QUEUE_MAX - queue.length);
      queue.push(...spans.slice(0, room));
      dropped += Math.max(0, spans.length - room);
      if (queue.length >= BATCH_MAX) flush();
    },
    get dropped() {
      return dropped;
    },
    async stop() {
      isStopped = true;
      stopTicking();
      await sending;
      flush();
      await sending;
    },
  };

  function flush(): void {
    if (isSending || queue.length === 0) return;
    isSending = true;
    sending = sendAll().finally(() => {
      isSending = false;
    });
  }

  async function sendAll(): Promise<void> {
    while (queue.length > 0) {
      const batch = queue.slice(0, BATCH_MAX);
      queue = queue.slice(batch.length);
      const problem = await send(JSON.stringify(otlpTraces(batch, resource)));
      if (problem === undefined) {
        isAway = false;
        continue;
      }
      dropped += batch.length;
      // Once for each time that it goes away: a line per batch would say no more.
      if (!isAway) log.warn({ problem }, "the collector of traces does not take spans");
      isAway = true;
      return;
    }
  }

  /** What was wrong, in words; undefined once it is taken. */
  async function send(body: string): Promise<string | undefined> {
    for (let attempt = 1; ; attempt++) {
      const answer = await post(settings, body);
      if (answer.kind === "taken") return undefined;
      const isLast = attempt >= ATTEMPTS_MAX || isStopped;
      if (isLast || !answer.mayRetry) return answer.because;
      await timers.sleep(BACKOFF_MS * 2 ** (attempt - 1));
    }
  }
}

export type PostAnswer =
  | { readonly kind: "taken" }
  | { readonly kind: "refused"; readonly mayRetry: boolean; readonly because: string };

export async function postSpans(settings: TraceSettings, body: string): Promise<PostAnswer> {
  try {
    const response = await fetch(settings.endpoint, {
      method: "POST",
      headers: { ...settings.headers, "content-type": "application/json" },
      body,
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    await response.body?.cancel();
    if (response.ok) return { kind: "taken" };
    const because = `it answered ${response.status}`;
    return { kind: "refused", mayRetry: RETRIED.includes(response.status), because };
  } catch (reason) {
    const because = reason instanceof Error ? reason.message : String(reason);
    return { kind: "refused", mayRetry: true, because };
  }
}
