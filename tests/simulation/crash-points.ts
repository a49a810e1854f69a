// Every crash of a reference scenario, one world each: create, set up, sync, plan, apply, debug command
// and its cancel, update, destroy. The points are counted once without a crash; then each is struck.

import { checkAtRest, restOf } from "./promises.ts";
import { begin, comeToRest, type Parts, pass, type SimulationReport } from "./simulate.ts";
import { createWorld, type Sabotage } from "./world.ts";

const SEED = 1;
const NOWHERE = 0;
const STEP_MS = 1_000;
const STEPS_MAX = 120;

/** The points at which somebody can crash, in order; the first is number 1. */
export async function crashPoints(): Promise<readonly string[]> {
  const { world } = await play(NOWHERE);
  return world.points;
}

export interface CrashOptions {
  readonly sabotage?: Sabotage;
  /** With an agent, what its runtime knows is lost. */
  readonly losesRuntimes?: boolean;
}

export async function crashAt(
  point: number,
  options: CrashOptions = {},
): Promise<SimulationReport> {
  const parts = await play(point, options);
  await comeToRest(parts);
  await checkAtRest(parts);
  const { violations, trace } = parts.world;
  return { seed: point, violations, trace, jobs: 0 };
}

async function play(crashAtPoint: number, options: CrashOptions = {}): Promise<Parts> {
  const world = createWorld({ seed: SEED, crashAtPoint, ...options });
  const parts = await begin(world);
  const { operator } = parts;
  await operator.create("acme");
  await untilRest(parts);
  await operator.exec("acme");
  await pass(parts, STEP_MS);
  await operator.cancelRequests();
  await untilRest(parts);
  await operator.update();
  await untilRest(parts);
  await operator.destroy("acme");
  await untilRest(parts);
  return parts;
}

async function untilRest(parts: Parts): Promise<void> {
  for (let step = 0; step < STEPS_MAX; step++) {
    await pass(parts, STEP_MS);
    if ((await restOf(parts)).kind !== "busy") return;
  }
}
