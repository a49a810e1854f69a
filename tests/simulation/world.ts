// What all parts of a simulated world share: the dice, the clock, the faults that may strike, and the
// book in which broken promises are written down.

import { createDice, type Dice } from "./dice.ts";

/** Rules that can be broken on purpose, to prove that the simulation would notice. */
export type Sabotage =
  | "none"
  /** The agent speaks and acts before its journal is on disk. */
  | "agent-acts-before-commit"
  /** The server acknowledges before its transaction is committed. */
  | "server-acks-before-commit"
  /** The agent keeps no launch intent, and the runtime starts a name as often as it is told. */
  | "launches-are-forgotten"
  /** The agent believes every envelope. */
  | "agent-trusts-anyone";

export interface World {
  readonly dice: Dice;
  readonly sabotage: Sabotage;
  now: number;
  /** Faults strike only while this is set; without them a world must come to rest. */
  isTroubled: boolean;
  readonly violations: string[];
  readonly trace: string[];
}

/** Whoever it strikes loses all it has in memory, between any two of its effects. */
export class Crash extends Error {}

export function createWorld(seed: number, sabotage: Sabotage): World {
  return {
    dice: createDice(seed),
    sabotage,
    now: 1_800_000_000_000,
    isTroubled: true,
    violations: [],
    trace: [],
  };
}

export function note(world: World, text: string): void {
  world.trace.push(`${world.now - 1_800_000_000_000} ${text}`);
}

export function must(world: World, holds: boolean, promise: string): void {
  if (holds) return;
  note(world, `VIOLATION ${promise}`);
  world.violations.push(promise);
}

const CRASH_CHANCE = 0.006;

export function mayCrash(world: World): void {
  if (world.isTroubled && world.dice.chance(CRASH_CHANCE)) throw new Crash();
}
