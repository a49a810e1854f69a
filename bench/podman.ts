// What a job's start costs on Podman beside a bare `podman run` of the same image with the same walls, in
// turns on the same engine; and fifty jobs at once.

import { setTimeout as sleep } from "node:timers/promises";
import { jobName } from "@exclave/core";
import type { JobSpec } from "@exclave/runtime";
import { createPodmanRuntime } from "@exclave/runtime/podman";
import {
  createContainerImages,
  createScratchEngine,
  lacksPodman,
  shell,
} from "@exclave/runtime/testing";
import { type Bench, type Figure, percentile, round, say } from "./figure.ts";

const OWNER = "exclave-bench";
const WALLS = ["--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--init"];
const LIMITS = ["--memory", "256m", "--pids-limit", "128", "--cpus", "2", "--user", "65532:65532"];
const ULIMITS = ["--ulimit", "nofile=16384:16384", "--ulimit", "nproc=32768:32768"];

export const PODMAN_BENCHES: readonly Bench[] = [{ name: "podman-start", run: startOverhead }];

async function* startOverhead(directory: string, size = 20): AsyncIterable<Figure> {
  const lacking = lacksPodman();
  if (lacking !== undefined) {
    say(`podman-start is not measured: it ${lacking}`);
    return;
  }
  const engine = await createScratchEngine();
  try {
    const images = createContainerImages();
    const image = images.put(shell("echo done"));
    const { socket } = engine;
    const runtime = createPodmanRuntime({ socket, owner: OWNER, images, directory });
    let made = 0;
    const specOf = (): JobSpec => ({
      name: jobName(`bench-${++made}`, 1),
      image,
      jobClass: "apply",
      files: { "job.json": "{}" },
      environment: {},
      limits: { memoryBytes: 256 * 1024 ** 2, processesMax: 128, cpus: 2 },
      network: "none",
      deadlineMs: 60_000,
    });
    const ours = async (spec: JobSpec) => {
      await runtime.start(spec);
      while ((await runtime.inspect(spec.name)).kind !== "exited") await sleep(10);
    };
    // The image is loaded once for both.
    const first = specOf();
    await ours(first);
    await runtime.remove(first.name);
    const { id } = await images.open(image);
    const bare = () => {
      const args = ["run", "--rm", "--network", "none", ...WALLS, ...LIMITS, ...ULIMITS, id];
      engine.podman(...args);
    };
    const seconds = { ours: [] as number[], bare: [] as number[] };
    for (let turn = 0; turn < size; turn++) {
      const spec = specOf();
      // With its removal: `podman run --rm` removes, too.
      const whole = timed(async () => {
        await ours(spec);
        await runtime.remove(spec.name);
      });
      seconds.ours.push(await whole);
      seconds.bare.push(await timed(async () => bare()));
    }
    const [median, peer] = [percentile(seconds.ours, 0.5), percentile(seconds.bare, 0.5)];
    yield {
      figure: "podman-start",
      value: round(median / peer),
      unit: "× podman run",
      beside: {
        jobs: size,
        oursSeconds: round(median, 3),
        podmanRunSeconds: round(peer, 3),
        oursP95Seconds: round(percentile(seconds.ours, 0.95), 3),
        podmanRunP95Seconds: round(percentile(seconds.bare, 0.95), 3),
        goal: "at most 1.1 × and 1.5 s",
        isMet: median <= 1.1 * peer + 1.5,
      },
    };
    yield await many(runtime, specOf, ours);
  } finally {
    await engine.close();
  }
}

async function many(
  runtime: ReturnType<typeof createPodmanRuntime>,
  specOf: () => JobSpec,
  ours: (spec: JobSpec) => Promise<void>,
): Promise<Figure> {
  const specs = Array.from({ length: 50 }, specOf);
  const took = await timed(async () => {
    await Promise.all(specs.map(ours));
  });
  let failed = 0;
  for (const { name } of specs) {
    const run = await runtime.inspect(name);
    const isWell = run.kind === "exited" && run.exit.kind === "code" && run.exit.code === 0;
    if (!isWell) failed += 1;
    await runtime.remove(name);
  }
  const beside = { jobs: specs.length, failed, goal: "none fails" };
  return { figure: "podman-parallel", value: round(took), unit: "s", beside };
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const since = performance.now();
  await work();
  return (performance.now() - since) / 1_000;
}
