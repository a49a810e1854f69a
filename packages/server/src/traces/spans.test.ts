import assert from "node:assert/strict";
import { test } from "node:test";
import { ComponentName, Instant } from "@exclave/core";
import { jobRow } from "../testing/rows.ts";
import { otlpTraces } from "./otlp.ts";
import { jobSpans, requestSpan } from "./spans.ts";

const at = (ms: number) => Instant.parse(ms);
const ENDED = {
  component: ComponentName.parse("api"),
  operation: "apply",
  createdAt: at(1_000),
  startedAt: at(1_400),
  endedAt: at(3_000),
} as const;
const succeeded = jobRow({ ...ENDED, state: { status: "succeeded", since: at(3_000) } });
const CALL = {
  own: { traceId: "a".repeat(32), spanId: "b".repeat(16) },
  caller: undefined,
  name: "deployInstall",
  route: "/v1/installs/:install/deploy",
  method: "POST",
  startedAtMs: 1,
  endedAtMs: 2,
};

test("a job that is over is a span with its wait and its run inside", () => {
  const [whole, wait, run] = jobSpans(succeeded);

  assert.equal(whole?.name, "apply api");
  assert.deepEqual([whole?.startedAtMs, whole?.endedAtMs], [1_000, 3_000]);
  assert.deepEqual([wait?.startedAtMs, wait?.endedAtMs], [1_000, 1_400]);
  assert.deepEqual([run?.startedAtMs, run?.endedAtMs], [1_400, 3_000]);
  assert.equal(run?.parentSpanId, whole?.spanId);
  assert.equal(whole?.error, undefined);
  // Told again, it is the same span and no second one.
  assert.deepEqual(jobSpans(succeeded), [whole, wait, run]);
});

test("a job continues the trace of the request it came of", () => {
  const trace = { traceId: "c".repeat(32), spanId: "d".repeat(16), at: at(900) };

  const [whole, wait] = jobSpans({ ...succeeded, trace });

  assert.equal(whole?.traceId, trace.traceId);
  assert.equal(whole?.parentSpanId, trace.spanId);
  assert.equal(wait?.traceId, trace.traceId);
});

test("a job that is not over has no span, one that failed says why", () => {
  const failure = { code: "timeout", message: "its deadline passed" } as const;
  const state = { status: "failed", since: at(3_000), ...failure } as const;

  assert.deepEqual(jobSpans(jobRow({ ...ENDED, endedAt: null })), []);
  assert.equal(jobSpans(jobRow({ ...ENDED, state, failure }))[0]?.error, "its deadline passed");
});

test("no span ends before it began, whichever clocks told it", () => {
  const backwards = { ...succeeded, startedAt: at(500), endedAt: at(800) };

  for (const { startedAtMs, endedAtMs } of jobSpans(backwards)) assert.ok(endedAtMs >= startedAtMs);
});

test("a call that the server could not answer is an error, one that it refused is not", () => {
  assert.equal(requestSpan({ ...CALL, status: 403 }).error, undefined);
  assert.equal(requestSpan({ ...CALL, status: 503 }).error, "answered 503");
});

test("spans are written as OTLP wants them in JSON", () => {
  const span = requestSpan({ ...CALL, status: 500, startedAtMs: 1_800_000_000_123.5 });

  const written = otlpTraces([{ ...span, endedAtMs: 1_800_000_000_124 }], {
    serviceName: "exclave-server",
    serviceVersion: "1",
  });

  const { resourceSpans } = written as { resourceSpans: { scopeSpans: { spans: object[] }[] }[] };
  assert.deepEqual(resourceSpans[0]?.scopeSpans[0]?.spans[0], {
    traceId: "a".repeat(32),
    spanId: "b".repeat(16),
    name: "deployInstall",
    kind: 2,
    startTimeUnixNano: "1800000000123500000",
    endTimeUnixNano: "1800000000124000000",
    attributes: [
      { key: "http.request.method", value: { stringValue: "POST" } },
      { key: "http.route", value: { stringValue: "/v1/installs/:install/deploy" } },
      { key: "http.response.status_code", value: { intValue: "500" } },
    ],
    status: { code: 2, message: "answered 500" },
  });
});
