// What it costs to plan many installs at once: all are marked, and each is decided on its own rows. Reading the rows is
// not part of it; `fanout` has that.

import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { openPlannerScale } from "@exclave/server/testing/load";
import { type Bench, type Figure, round } from "../figure.ts";

export const PLANNER_BENCHES: readonly Bench[] = [{ name: "planner-scale", run }];

const SIZES = [1_000, 10_000, 100_000, 1_000_000];
const HEAP_BYTES_MAX = 1_024;
/** Of the smallest size's, for one install: garbage collection and noise, and no more. */
const GROWTH_MAX = 1.5;

async function* run(directory: string, size = 1_000_000): AsyncIterable<Figure> {
  // What is measured is what is held, not what waits to be collected.
  setFlagsFromString("--expose-gc");
  globalThis.gc = runInNewContext("gc") as typeof globalThis.gc;
  const sizes = SIZES.filter((one) => one <= size);
  const planner = await openPlannerScale(join(directory, "planner"));
  // Until the compiler knows it, it is slower.
  for (let n = 0; n < 20; n++) await planner.plan(1_000);
  let first: number | undefined;
  for (const installs of sizes) {
    const { tookMs, processorMs, heapBytes } = await planner.plan(installs);
    const microseconds = (processorMs * 1_000) / installs;
    first ??= microseconds;
    const growth = microseconds / first;
    const heapEach = heapBytes / installs;
    yield {
      figure: `planner-scale-${installs}`,
      value: round(microseconds, 1),
      unit: "µs of processor time an install",
      beside: {
        goal: `<= ${GROWTH_MAX} × the smallest, <= ${HEAP_BYTES_MAX} B heap each`,
        isMet: growth <= GROWTH_MAX && heapEach <= HEAP_BYTES_MAX,
        ratio: round(growth),
        heapBytesEach: round(heapEach, 0),
        seconds: round(tookMs / 1_000, 2),
      },
    };
  }
}
