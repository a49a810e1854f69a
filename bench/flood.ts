// What others feel of a flood: the slowest of a hundred calls and events beside one malicious agent and one viewer's
// token, against the same without them.

import { runFlood } from "@exclave/server/testing/flood";
import { type Bench, type Figure, percentile, round } from "./figure.ts";

const PHASE_MS = 20_000;
const RATIO_MAX = 2;
const RESIDENT_MB_MAX = 768;

export const FLOOD_BENCHES: readonly Bench[] = [{ name: "flood", run }];

async function* run(directory: string): AsyncIterable<Figure> {
  const { quiet, flooded, failures, residentBytesMax, sent } = await runFlood(directory, {
    phaseMs: PHASE_MS,
    isIdle: true,
  });
  const quietMs = percentile(quiet, 0.99);
  const floodedMs = percentile(flooded, 0.99);
  const ratio = floodedMs / quietMs;
  yield {
    figure: "flood: p99 of others, flooded over quiet",
    value: round(ratio),
    unit: "×",
    beside: {
      goal: `at most ${RATIO_MAX}`,
      isMet: ratio <= RATIO_MAX && failures.length === 0,
      quietMs: round(quietMs),
      floodedMs: round(floodedMs),
      failures: failures.length,
      sent,
    },
  };
  const megabytes = residentBytesMax / 1024 / 1024;
  yield {
    figure: "flood: resident memory of the server",
    value: round(megabytes, 0),
    unit: "MB",
    beside: { goal: `at most ${RESIDENT_MB_MAX}`, isMet: megabytes <= RESIDENT_MB_MAX },
  };
}
