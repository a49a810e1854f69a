import assert from "node:assert/strict";
import { test } from "node:test";
import { createInstruments } from "./instruments.ts";

test("counters add up by their labels, and gauges are read when somebody asks", () => {
  const instruments = createInstruments();
  const ended = instruments.counter("jobs_total", "Jobs.");
  let agents = 1;
  instruments.gauge("agents", "Agents.", () => [{ labels: {}, value: agents }]);

  ended.add({ outcome: "failed" });
  ended.add({ outcome: "failed" }, 2);
  ended.add({ outcome: 'a "b"\\\n' });
  agents = 7;

  assert.equal(
    instruments.render(),
    [
      "# HELP jobs_total Jobs.",
      "# TYPE jobs_total counter",
      'jobs_total{outcome="failed"} 3',
      'jobs_total{outcome="a \\"b\\"\\\\\\n"} 1',
      "# HELP agents Agents.",
      "# TYPE agents gauge",
      "agents 7",
      "",
    ].join("\n"),
  );
});

test("a histogram's buckets hold what is at most their bound, each with all below it", () => {
  const instruments = createInstruments();
  const took = instruments.histogram("seconds", "Time.", [0.1, 1]);

  for (const value of [0.1, 0.5, 1, 30]) took.observe({ call: "x" }, value);

  assert.deepEqual(instruments.render().split("\n").slice(2), [
    'seconds_bucket{call="x",le="0.1"} 1',
    'seconds_bucket{call="x",le="1"} 3',
    'seconds_bucket{call="x",le="+Inf"} 4',
    'seconds_sum{call="x"} 31.6',
    'seconds_count{call="x"} 4',
    "",
  ]);
});

test("labels that take ever new values are counted as one, and nothing is lost", () => {
  const instruments = createInstruments();
  const seen = instruments.counter("seen_total", "Seen.");

  for (let n = 0; n < 10_000; n++) seen.add({ path: `/${n}`, method: "GET" });

  const lines = instruments.render().trim().split("\n").slice(2);
  assert.equal(lines.length, 501);
  assert.equal(lines.at(-1), 'seen_total{path="other",method="other"} 9500');
});
