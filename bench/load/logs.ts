// How fast a server takes what jobs write, and how far behind a job's log somebody is who follows it meanwhile.

import { createClient, getJobLog } from "@exclave/api";
import { until } from "@exclave/server/testing/load";
import { type Bench, type Figure, percentile, round, say } from "../figure.ts";
import { type World, withFleet } from "./fleet-world.ts";

const RATE_MIN = 50;
const TAIL_P99_MS = 500;
/** Of all jobs together: a job's log is kept up to 64 MiB. */
const BYTES = { one: 60_000_000, many: 160_000_000 };
const JOBS = 20;
const LINE_EVERY_MS = 20;
const LINES = 250;

export const LOGS_BENCHES: readonly Bench[] = [{ name: "logs-ingest", run: ingest }];

/** Jobs by what they write: so many bytes at once, or a line with the time in it again and again. */
type Writing = { readonly kind: "bytes"; readonly count: number } | { readonly kind: "lines" };

async function* ingest(): AsyncIterable<Figure> {
  const began = new Map<string, number>();
  let writing: Writing = { kind: "lines" };
  const logOf = (job: string): AsyncIterable<Buffer> => {
    began.set(job, performance.now());
    return writing.kind === "lines" ? lines() : bytes(writing.count);
  };
  yield* withFleet(JOBS + 1, { logOf }, async function* (world) {
    const rates: number[] = [];
    for (const jobs of [1, JOBS]) {
      writing = { kind: "bytes", count: (jobs === 1 ? BYTES.one : BYTES.many) / jobs };
      rates.push(await rateOf(world, jobs, writing.count, began));
      say(`${jobs} jobs: ${round(rates.at(-1) ?? 0, 1)} MB/s`);
    }
    writing = { kind: "lines" };
    const quiet = await tail(world, () => Promise.resolve());
    const busy = await tail(world, async () => {
      writing = { kind: "bytes", count: BYTES.many / JOBS };
      await rateOf(world, JOBS, writing.count, began);
    });
    const value = Math.min(...rates);
    const p99 = percentile(busy, 0.99);
    yield {
      figure: "logs-ingest",
      value: round(value, 0),
      unit: "MB/s",
      beside: {
        goal: `>= ${RATE_MIN}, tail p99 <= ${TAIL_P99_MS} ms`,
        isMet: value >= RATE_MIN && p99 <= TAIL_P99_MS,
        oneJob: round(rates[0] ?? 0, 0),
        twentyJobs: round(rates[1] ?? 0, 0),
        tailP99MsQuiet: round(percentile(quiet, 0.99), 0),
        tailP99MsBusy: round(p99, 0),
      },
    };
  });
}

/** Megabytes a second, from the first byte written until the last is acknowledged, which is after its sync. */
async function rateOf(
  { agents, people }: World,
  jobs: number,
  count: number,
  began: ReadonlyMap<string, number>,
): Promise<number> {
  const asked = Array.from({ length: jobs }, (_, n) => people.ask(agents.agents[n]!.install));
  const ids = await Promise.all(asked);
  await until(() => ids.every((id) => agents.delivered.has(id)), "every log is there");
  const first = Math.min(...ids.map((id) => began.get(id) ?? Infinity));
  const last = Math.max(...ids.map((id) => agents.delivered.get(id) ?? 0));
  return (jobs * count) / 1_000 / (last - first);
}

/** How late each line of one job arrived at somebody who follows it, while that was done beside it. */
async function tail({ agents, people, server }: World, beside: () => Promise<void>) {
  const { url, token } = server;
  const job = await people.ask(agents.agents[JOBS]!.install);
  const client = createClient({ url, token });
  const late: number[] = [];
  const following = (async () => {
    let rest = "";
    const query = { follow: "true" };
    for await (const chunk of client.bytes(getJobLog, { params: { job }, query })) {
      const now = performance.now();
      const parts = (rest + Buffer.from(chunk).toString()).split("\n");
      rest = parts.pop() ?? "";
      for (const line of parts) late.push(now - Number(line));
    }
  })();
  await until(() => late.length > 0, "the first line has arrived");
  await Promise.all([following, beside()]);
  return late;
}

async function* bytes(count: number): AsyncIterable<Buffer> {
  yield Buffer.alloc(count, "what a job says, over and over\n");
}

async function* lines(): AsyncIterable<Buffer> {
  for (let line = 0; line < LINES; line++) {
    yield Buffer.from(`${performance.now()}\n`);
    await new Promise((resolve) => setTimeout(resolve, LINE_EVERY_MS));
  }
}
