// The death of any kind of process, in the middle of what was asked for. Each strike says what it did,
// so that a round that fails can be told.

import { setTimeout as sleep } from "node:timers/promises";
import type { World } from "../e2e/testing/harness.ts";
import type { Dice } from "../simulation/dice.ts";

/** Every kind of process, by words of its command line. */
export const PROCESSES = {
  server: ["server/src/main.ts", "--data"],
  signer: ["signer/main.ts"],
  "build agent": ["agent/src/main.ts", "build"],
  "setup agent": ["agent/src/main.ts", "setup"],
  "install agent": ["agent.mjs", "install"],
  "install registry": ["registry.mjs", "--address"],
  "sandbox supervisor": ["init.mjs"],
  "job keeper": ["/keeper."],
  "job runner": ["/runner."],
  "job program": ["apply.sh"],
  "at-most-once program": ["plugin.sh"],
  "service supervisor": ["/supervisor-"],
  "service program": ["server.mjs"],
  up: ["exclave.js", " up "],
} as const satisfies Record<string, readonly string[]>;

export type ProcessKind = keyof typeof PROCESSES;
export const KINDS = Object.keys(PROCESSES) as ProcessKind[];

/** Kills one process of that kind, waiting for one to appear; says which, or that there was none. */
export async function killOne(
  world: World,
  kind: ProcessKind,
  dice: Dice,
  withinMs: number,
): Promise<string | undefined> {
  const end = Date.now() + withinMs;
  for (;;) {
    const pid = dice.pick(pidsOf(world, kind));
    if (pid !== undefined && kill(pid)) {
      if (kind === "up") await world.up();
      return `killed the ${kind}`;
    }
    if (Date.now() >= end) return undefined;
    await sleep(20);
  }
}

/** `up` has spaces around it, so that it is no part of another word. */
function pidsOf(world: World, kind: ProcessKind): number[] {
  return world.pids(...PROCESSES[kind]);
}

function kill(pid: number): boolean {
  try {
    process.kill(pid, "SIGKILL");
    return true;
  } catch {
    return false;
  }
}
