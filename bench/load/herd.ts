// What a whole fleet does at once: takes a release, and comes back after the server was killed.

import { setChannel } from "@exclave/api";
import {
  APP,
  CHANNEL,
  endProcess,
  processorMs,
  residentBytes,
  until,
} from "@exclave/server/testing/load";
import { type Bench, type Figure, round } from "../figure.ts";
import { clientOf, seconds, type World, withFleet } from "./fleet-world.ts";

export const HERD_BENCHES: readonly Bench[] = [
  { name: "fanout", run: (_, size = 10_000) => withFleet(size, { hasTls: true }, fanout) },
  { name: "storm", run: (_, size = 10_000) => withFleet(size, { hasTls: true }, storm) },
];

const FANOUT_SECONDS_PER_10K = 15;

async function* fanout(world: World): AsyncIterable<Figure> {
  const { agents, server, fleet } = world;
  const pid = server.child.pid ?? 0;
  const spent = processorMs(pid);
  const count = agents.agents.length;
  const client = clientOf(server, fleet);
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
      heldMs: await world.heldMs(),
    },
  };
}

const STORM_SECONDS_MAX = 60;

async function* storm(world: World): AsyncIterable<Figure> {
  const { agents, people, server } = world;
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
  await world.restart();
  const startedMs = performance.now() - killed;
  await until(() => agents.liveCount() === count, "all agents are back");
  const backMs = performance.now() - killed;
  const spentMs = processorMs(world.server.child.pid ?? 0);
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
      processorMsPerAgent: round(spentMs / count),
      heldMs: await world.heldMs(),
    },
  };
}
