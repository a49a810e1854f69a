// What one server process carries: jobs a second beside queues that others use, and how long one takes to reach its agent.

import { processorMs, until, withChildren } from "@exclave/server/testing/load";
import { findPostgres, startPostgres } from "@exclave/server/testing/postgres";
import { type Bench, type Figure, percentile, round, say } from "../figure.ts";
import { type World, withFleet } from "./fleet-world.ts";
import { graphileRate, pgBossRate } from "./queues.ts";

export const DISPATCH_BENCHES: readonly Bench[] = [
  { name: "dispatch-rate", run: sqliteRate },
  { name: "dispatch-rate-postgresql", run: postgresRate },
  { name: "dispatch-latency", run: latency },
];

const RATE_MIN = 1_000;
const AT_ONCE = 128;
const JOBS = 6_000;
const RATE_AGENTS = 300;
const PG_BOSS_RATIO_MIN = 2;

async function* sqliteRate(_: string, size?: number): AsyncIterable<Figure> {
  yield* withFleet(RATE_AGENTS, {}, (world) => rate(world, "dispatch-rate", size));
}

/** The same database for ours and the queues beside it, each commit on the disk before it is answered. */
async function* postgresRate(_: string, size = JOBS / 3): AsyncIterable<Figure> {
  const programs = findPostgres();
  if (programs === undefined) {
    say("PostgreSQL is not on this machine: no figure");
    return;
  }
  const cluster = await startPostgres(programs, { isDurable: true });
  try {
    const peers = {
      pgBoss: round(await pgBossRate(await cluster.create(), size), 0),
      graphileWorker: round(await graphileRate(await cluster.create(), size), 0),
    };
    const databaseUrl = await cluster.create();
    const name = "dispatch-rate-postgresql";
    const measured = withFleet(RATE_AGENTS, { databaseUrl }, (world) => rate(world, name, size));
    for await (const figure of measured) yield besidePeers(figure, peers);
  } finally {
    await cluster.stop();
  }
}

function besidePeers({ value, beside, ...figure }: Figure, peers: { readonly pgBoss: number }) {
  const ratio = round(value / peers.pgBoss);
  const goal = `>= ${PG_BOSS_RATIO_MIN} × pg-boss`;
  const isMet = ratio >= PG_BOSS_RATIO_MIN;
  return { ...figure, value, beside: { ...beside, goal, isMet, ratio, jobsASecond: peers } };
}

/** As many at once as the server takes, until all have ended and their results are on record. */
async function* rate(world: World, figure: string, jobs = JOBS): AsyncIterable<Figure> {
  const { agents, server } = world;
  await askAtOnce(world, Math.ceil(jobs / 10));
  agents.clear();
  const [pid = 0, ...children] = withChildren(server.child.pid ?? 0);
  const besideMs = () => children.reduce((sum, child) => sum + processorMs(child), 0);
  const [spent, spentBeside] = [processorMs(pid), besideMs()];
  const began = performance.now();
  await askAtOnce(world, jobs);
  const tookMs = performance.now() - began;
  const value = (jobs / tookMs) * 1_000;
  yield {
    figure,
    value: round(value, 0),
    unit: "jobs/s",
    beside: {
      goal: `>= ${RATE_MIN}`,
      isMet: value >= RATE_MIN,
      jobs,
      agents: agents.agents.length,
      processorMsPerJob: round((processorMs(pid) - spent) / jobs),
      signerMsPerJob: round((besideMs() - spentBeside) / jobs),
      heldMs: await world.heldMs(),
    },
  };
}

async function askAtOnce({ agents, people }: World, jobs: number): Promise<void> {
  const before = agents.ended.size;
  let asked = 0;
  const asking = Array.from({ length: AT_ONCE }, async () => {
    while (asked < jobs) {
      const { install } = agents.agents[asked++ % agents.agents.length]!;
      await people.ask(install);
    }
  });
  await Promise.all(asking);
  await until(() => agents.ended.size - before >= jobs, "every job has ended");
}

const LATENCY_P50_MS = 20;
const LATENCY_P99_MS = 150;
const JOBS_A_SECOND = 100;
const LATENCY_SECONDS = 20;

/** `size` is the largest of the fleets. */
async function* latency(_: string, size = 10_000): AsyncIterable<Figure> {
  for (const installs of new Set([50, 2_000, size].map((count) => Math.min(count, size)))) {
    yield* withFleet(installs, { hasTls: true }, latencyOf);
  }
}

async function* latencyOf(world: World): AsyncIterable<Figure> {
  const { agents } = world;
  await askAtOnce(world, 200);
  const pid = world.server.child.pid ?? 0;
  await world.heldMs();
  const spent = processorMs(pid);
  const times = await askEvenly(world, LATENCY_SECONDS);
  const spentMs = processorMs(pid) - spent;
  const p50 = percentile(times, 0.5);
  const p99 = percentile(times, 0.99);
  yield {
    figure: `dispatch-latency-${agents.agents.length}`,
    value: round(p99, 1),
    unit: "ms, p99",
    beside: {
      goal: `p50 <= ${LATENCY_P50_MS}, p99 <= ${LATENCY_P99_MS}`,
      isMet: p50 <= LATENCY_P50_MS && p99 <= LATENCY_P99_MS,
      p50: round(p50, 1),
      jobsASecond: JOBS_A_SECOND,
      agents: agents.agents.length,
      processorMsPerJob: round(spentMs / times.length),
      heldMs: await world.heldMs(),
    },
  };
}

/** From the moment somebody asks until the server has acknowledged that the agent has the job. */
async function askEvenly({ agents, people }: World, forSeconds: number): Promise<number[]> {
  const began = performance.now();
  const asked = Array.from({ length: forSeconds * JOBS_A_SECOND }, async (_, n) => {
    const due = began + (n * 1_000) / JOBS_A_SECOND;
    await new Promise((resolve) => setTimeout(resolve, due - performance.now()));
    const at = performance.now();
    // Spread over the fleet: neighbours in the list are not asked one after the other.
    const { install } = agents.agents[(n * 7_919) % agents.agents.length]!;
    return { at, job: await people.ask(install) };
  });
  const jobs = await Promise.all(asked);
  await until(() => jobs.every(({ job }) => agents.accepted.has(job)), "every job was accepted");
  return jobs.map(({ at, job }) => (agents.accepted.get(job) ?? Infinity) - at);
}
