// How a server stops with all its agents connected and jobs on their way: how long it takes, what it costs, and when
// they are back at the one that is started in its place.

import { endProcess, processorMs, until } from "@exclave/server/testing/load";
import { type Bench, type Figure, round } from "../figure.ts";
import { seconds, type World, withFleet } from "./fleet-world.ts";

const STOP_SECONDS_MAX = 5;
const JOBS_MAX = 200;

export const DRAIN_BENCHES: readonly Bench[] = [
  { name: "drain", run: (_, size = 2_000) => withFleet(size, {}, drain) },
];

async function* drain(world: World): AsyncIterable<Figure> {
  const { agents, people, server } = world;
  const count = agents.agents.length;
  const pid = server.child.pid ?? 0;
  agents.clear();
  const asked = Array.from({ length: Math.min(count, JOBS_MAX) }, (_, n) =>
    people.ask(agents.agents[n % count]!.install),
  );
  const jobs = await Promise.all(asked);
  const spent = processorMs(pid);
  let spentToStop = 0;
  const watch = setInterval(() => {
    spentToStop = processorMs(pid) - spent || spentToStop;
  }, 20);
  const began = performance.now();
  await endProcess(server.child, "SIGTERM");
  const stoppedMs = performance.now() - began;
  clearInterval(watch);
  await world.restart();
  await until(() => agents.liveCount() === count, "all agents are back");
  const backMs = performance.now() - began;
  await until(() => jobs.every((job) => agents.ended.has(job)), "every job has ended");
  yield {
    figure: `drain-${count}`,
    value: seconds(stoppedMs),
    unit: "s until the server has stopped",
    beside: {
      goal: `<= ${STOP_SECONDS_MAX}, nothing lost`,
      isMet: stoppedMs <= STOP_SECONDS_MAX * 1_000,
      processorMsPerAgent: round(spentToStop / count),
      backSeconds: seconds(backMs),
      jobsOnRecord: jobs.length,
    },
  };
}
