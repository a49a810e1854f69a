import assert from "node:assert/strict";
import { test } from "node:test";
import { createSpanExporter, type PostAnswer } from "./span-exporter.ts";
import type { Span } from "./spans.ts";

const SETTINGS = { endpoint: "http://127.0.0.1:4318/v1/traces", headers: {}, serviceName: "s" };

function span(name: string): Span {
  return {
    traceId: "a".repeat(32),
    spanId: "b".repeat(16),
    name,
    kind: "server",
    startedAtMs: 1,
    endedAtMs: 2,
    attributes: {},
  };
}

function exporterTo(answers: readonly PostAnswer[]) {
  const posted: string[][] = [];
  const warnings: string[] = [];
  const ticks: (() => void)[] = [];
  const left = [...answers];
  const exporter = createSpanExporter({
    settings: SETTINGS,
    version: "1",
    timers: {
      sleep: async () => undefined,
      every: (_ms, work) => {
        ticks.push(work);
        return () => ticks.splice(0);
      },
    },
    log: { warn: (_details, message) => warnings.push(message) },
    post: async (_settings, body) => {
      const { resourceSpans } = JSON.parse(body);
      posted.push(resourceSpans[0].scopeSpans[0].spans.map(({ name }: Span) => name));
      return left.shift() ?? { kind: "taken" };
    },
  });
  return { exporter, posted, warnings, tick: () => ticks.forEach((work) => work()) };
}

const AWAY = { kind: "refused", mayRetry: true, because: "it answered 503" } as const;
const NO = { kind: "refused", mayRetry: false, because: "it answered 400" } as const;

test("spans are sent together, and what is left when the server stops", async () => {
  const { exporter, posted, tick } = exporterTo([]);
  exporter.add([span("one")]);
  exporter.add([span("two")]);
  tick();
  exporter.add([span("three")]);

  await exporter.stop();

  assert.deepEqual(posted.flat(), ["one", "two", "three"]);
  assert.equal(posted[0]?.length, 2);
  assert.equal(exporter.dropped, 0);
});

test("a collector that is away for a moment is asked again, and misses nothing", async () => {
  const { exporter, posted, tick } = exporterTo([AWAY, AWAY]);
  exporter.add([span("one")]);
  tick();

  await new Promise(setImmediate);
  await exporter.stop();

  assert.deepEqual(posted, [["one"], ["one"], ["one"]]);
  assert.equal(exporter.dropped, 0);
});

test("spans that a collector refuses are counted, said once, and not sent again", async () => {
  const { exporter, posted, warnings, tick } = exporterTo([NO, NO]);
  exporter.add([span("one")]);
  tick();
  await new Promise(setImmediate);
  exporter.add([span("two")]);

  await exporter.stop();

  assert.deepEqual(posted, [["one"], ["two"]]);
  assert.equal(exporter.dropped, 2);
  assert.equal(warnings.length, 1);
});

test("spans that nobody takes do not pile up", async () => {
  const { exporter, posted } = exporterTo([]);

  exporter.add(Array.from({ length: 10_000 }, () => span("many")));
  await exporter.stop();

  assert.equal(exporter.dropped, 10_000 - 4_096);
  assert.equal(posted.flat().length, 4_096);
  assert.ok(posted.every((batch) => batch.length <= 512));
});
