// A runtime as the agent sees one: jobs that live on when the agent dies, are found again by name,
// and end when they please. It counts how often each was started, also after they are removed.

import type { JobName } from "@exclave/core";
import type { JobRun } from "@exclave/runtime";
import { must, note, type World } from "./world.ts";

export interface SimulatedRuntime {
  start(name: JobName): void;
  inspect(name: JobName): JobRun;
  stop(name: JobName): void;
  remove(name: JobName): void;
  list(): JobName[];
  output(name: JobName): Buffer;
  /** Lets a random job say something or end. */
  live(): void;
  readonly starts: ReadonlyMap<JobName, number>;
  /** What a job said in all, kept after it is removed. */
  readonly said: ReadonlyMap<JobName, Buffer>;
}

interface Run {
  isOver: boolean;
  wasStopped: boolean;
}

export function createSimulatedRuntime(world: World): SimulatedRuntime {
  const runs = new Map<JobName, Run>();
  const starts = new Map<JobName, number>();
  const said = new Map<JobName, Buffer>();

  return {
    start(name) {
      if (runs.has(name) && world.sabotage !== "launches-are-forgotten") return;
      note(world, `runtime starts ${name}`);
      runs.set(name, { isOver: false, wasStopped: false });
      starts.set(name, (starts.get(name) ?? 0) + 1);
      said.set(name, Buffer.alloc(0));
      must(world, starts.get(name) === 1, "an attempt is launched at most once");
    },
    inspect(name) {
      const run = runs.get(name);
      if (!run) return { kind: "absent" };
      if (!run.isOver) return { kind: "running" };
      const exit = run.wasStopped
        ? ({ kind: "signal", signal: "SIGTERM" } as const)
        : ({ kind: "code", code: 0 } as const);
      return { kind: "exited", exit };
    },
    stop(name) {
      const run = runs.get(name);
      if (run && !run.isOver) Object.assign(run, { isOver: true, wasStopped: true });
    },
    remove: (name) => void runs.delete(name),
    list: () => [...runs.keys()],
    output: (name) => said.get(name) ?? Buffer.alloc(0),
    live() {
      const running = [...runs].filter(([, { isOver }]) => !isOver);
      const [name, run] = world.dice.pick(running) ?? [];
      if (!name || !run) return;
      if (world.dice.chance(0.7)) {
        const bytes = Buffer.alloc(1 + world.dice.below(40), 97 + world.dice.below(26));
        said.set(name, Buffer.concat([said.get(name) ?? Buffer.alloc(0), bytes]));
      } else {
        run.isOver = true;
      }
    },
    starts,
    said,
  };
}
