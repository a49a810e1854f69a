// What one server process carries: jobs a second, how long one takes to reach its agent, a release to a whole fleet,
// and how a fleet comes back. Its agents share this process; each has a key and a link of its own.

import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { createClient, setChannel } from "@exclave/api";
import {
  APP,
  CHANNEL,
  createFleet,
  createPeople,
  endProcess,
  type Fleet,
  type People,
  processorMs,
  type RunningFleet,
  residentBytes,
  type ServerProcess,
  seedFleet,
  startServerProcess,
  until,
} from "@exclave/server/testing/load";
import { type Bench, type Figure, percentile, round, say } from "./figure.ts";

/** Commits are durable: they are measured on the disk the project is on. */
const DISK = join(import.meta.dirname, "../dist/bench");

export const LOAD_BENCHES: readonly Bench[] = [
  { name: "dispatch-rate", run: (_, size) => withFleet(300, (world) => rate(world, size)) },
  { name: "dispatch-latency", run: latency },
  { name: "fanout", run: (_, size = 2_000) => withFleet(size, fanout) },
  { name: "storm", run: (_, size = 2_000) => withFleet(size, storm) },
];

interface World {
  readonly fleet: Fleet;
  readonly agents: RunningFleet;
  readonly people: People;
  server: ServerProcess;
}

async function* withFleet(
  installs: number,
  measure: (world: World) => AsyncIterable<Figure>,
): AsyncIterable<Figure> {
  await mkdir(DISK, { recursive: true });
  const directory = await mkdtemp(join(DISK, "load-"));
  const data = join(directory, "server");
  const nodeArguments = (process.env["BENCH_NODE_ARGUMENTS"] ?? "").split(" ").filter(Boolean);
  try {
    say(`${installs} installs are seeded`);
    const fleet = await seedFleet(data, installs);
    const server = await startServerProcess(data, { nodeArguments });
    const agents = createFleet(fleet);
    const people = createPeople(server.url, fleet);
    const world: World = { fleet, agents, people, server };
    try {
      const began = performance.now();
      await agents.connect(server.url);
      say(`${installs} agents are connected after ${seconds(performance.now() - began)} s`);
      yield* measure(world);
    } finally {
      agents.stop();
      people.close();
      await endProcess(world.server.child, "SIGTERM");
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

const RATE_MIN = 1_000;
const AT_ONCE = 128;
const JOBS = 6_000;

/** As many at once as the server takes, until all have ended and their results are on record. */
async function* rate(world: World, jobs = JOBS): AsyncIterable<Figure> {
  const { agents, server } = world;
  await askAtOnce(world, Math.ceil(jobs / 10));
  agents.clear();
  const pid = server.child.pid ?? 0;
  const spent = processorMs(pid);
  const began = performance.now();
  await askAtOnce(world, jobs);
  const tookMs = performance.now() - began;
  const value = (jobs / tookMs) * 1_000;
  yield {
    figure: "dispatch-rate",
    value: round(value, 0),
    unit: "jobs/s",
    beside: {
      goal: `>= ${RATE_MIN}`,
      isMet: value >= RATE_MIN,
      jobs,
      agents: agents.agents.length,
      processorMsPerJob: round((processorMs(pid) - spent) / jobs),
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

/** `size` is the larger of the two fleets. */
async function* latency(_: string, size = 2_000): AsyncIterable<Figure> {
  for (const installs of [Math.min(50, size), size]) {
    yield* withFleet(installs, (world) => latencyOf(world));
  }
}

async function* latencyOf(world: World): AsyncIterable<Figure> {
  const { agents } = world;
  await askAtOnce(world, 200);
  const times = await askEvenly(world, LATENCY_SECONDS);
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

const FANOUT_SECONDS_PER_10K = 15;

async function* fanout(world: World): AsyncIterable<Figure> {
  const { agents, server, fleet } = world;
  const { url } = server;
  const pid = server.child.pid ?? 0;
  const spent = processorMs(pid);
  const count = agents.agents.length;
  const client = createClient({ url, token: server.token });
  agents.clear();
  const began = performance.now();
  await client.call(setChannel, {
    params: { app: APP, channel: CHANNEL },
    body: { release: fleet.releases["2"] ?? "" },
  });
  await until(
    () => agents.firstAccepted.size === count,
    "every install has accepted its first job",
  );
  const acceptedMs = performance.now() - began;
  // A sync, then an apply.
  await until(() => agents.ended.size >= 2 * count, "every install has the release");
  const deployedMs = performance.now() - began;
  const goalSeconds = (FANOUT_SECONDS_PER_10K * count) / 10_000;
  yield {
    figure: `fanout-${count}`,
    value: seconds(acceptedMs),
    unit: "s until all have accepted",
    beside: {
      goal: `<= ${round(goalSeconds, 1)}`,
      isMet: acceptedMs <= goalSeconds * 1_000,
      deployedSeconds: seconds(deployedMs),
      linksLost: agents.closes(),
      processorMsPerInstall: round((processorMs(pid) - spent) / count),
      residentMB: round(residentBytes(pid) / 1024 / 1024, 0),
    },
  };
}

const STORM_SECONDS_MAX = 60;

async function* storm(world: World): AsyncIterable<Figure> {
  const { agents, people, server, fleet } = world;
  const { data, url } = server;
  const count = agents.agents.length;
  agents.clear();
  const accepted = new Set<string>();
  const asking = Array.from({ length: Math.min(count, 1_000) }, async (_, n) => {
    const { install } = agents.agents[n % count]!;
    // Whoever asks while the server dies is told nothing, and has no job.
    await people.ask(install).then(
      (job) => accepted.add(job),
      () => undefined,
    );
  });
  await new Promise((resolve) => setTimeout(resolve, 500));
  const killed = performance.now();
  await endProcess(server.child, "SIGKILL");
  await Promise.all(asking);
  await until(() => agents.liveCount() === 0, "every link is down");
  world.server = await startServerProcess(data, { port: Number(new URL(url).port) });
  const startedMs = performance.now() - killed;
  await until(() => agents.liveCount() === count, "all agents are back");
  const backMs = performance.now() - killed;
  const isOver = () => [...accepted].every((job) => agents.ended.has(job));
  await until(isOver, "every job has ended", 60_000).catch(() => undefined);
  const lost = [...accepted].filter((job) => !agents.ended.has(job)).length;
  yield {
    figure: `storm-${count}`,
    value: seconds(backMs),
    unit: "s until all are back",
    beside: {
      goal: `<= ${STORM_SECONDS_MAX}, nothing lost`,
      isMet: backMs <= STORM_SECONDS_MAX * 1_000 && lost === 0,
      startedAgainSeconds: seconds(startedMs),
      jobsOnRecord: accepted.size,
      resultsLost: lost,
      tokens: fleet.tokens.length,
    },
  };
}

function seconds(ms: number): number {
  return round(ms / 1_000, 1);
}
