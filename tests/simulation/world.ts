// What all parts of a simulated world share: the dice, time, the faults that may strike, and the book
// in which broken promises are written down.

import { createDice, type Dice } from "./dice.ts";
import { createVirtualTime, type VirtualTime } from "./virtual-timers.ts";

/** Rules that can be broken on purpose, to prove that the simulation would notice. */
export type Sabotage =
  | "none"
  /** The agent's journal answers before it is on disk. */
  | "agent-acts-before-commit"
  /** The server's store answers before it is on disk. */
  | "server-acks-before-commit"
  /** The agent keeps no launch intent, and the runtime starts a name as often as it is told. */
  | "launches-are-forgotten"
  /** The agent believes every envelope. */
  | "agent-trusts-anyone"
  /** The agent's runtime takes a stop for done that it has not carried out. */
  | "stop-is-forgotten"
  /** The spool reads back other bytes than were written. */
  | "log-loses-bytes"
  /** A job that is over stays in the runtime. */
  | "jobs-are-not-removed"
  /** A job that failed says that it succeeded. */
  | "failures-are-hidden"
  /** The agent is told that it may send as much of a log as it likes. */
  | "credit-is-ignored"
  /** The agent runs as many debug commands at a time as are asked for. */
  | "limits-are-ignored"
  /** The runtime says of what runs at most once, and whose start failed after it had begun, that it never began. */
  | "beginnings-are-denied"
  /** The runtime says of what runs at most once and is at work that it waits for its start, and starts it again. */
  | "work-looks-unbegun"
  /** The agent's journal comes back from a crash without its last event. */
  | "events-are-lost"
  /** The agent's journal does not keep that a job has ended. */
  | "ends-are-forgotten"
  /** The server keeps no record of what an agent refused. */
  | "refusals-are-unrecorded"
  /** The spool writes other bytes than it was given, and gives the digest of those. */
  | "logs-are-rewritten"
  /** An agent says of what was killed that it was cancelled. */
  | "kills-pass-for-cancels"
  /** The server takes an end that nobody knows for one of what never began. */
  | "unknown-looks-unbegun";

/** Faults that strike by chance while there is trouble. */
export type Fault =
  | "crash"
  | "frame-lost"
  | "runtime-error"
  | "runtime-error-after"
  | "job-fails"
  | "machine-restarts"
  | "commit-fails"
  | "disk-full"
  | "journal-lost"
  | "backup-restored"
  | "clock-jumps"
  | "lie";

export interface World {
  readonly seed: number;
  readonly dice: Dice;
  readonly time: VirtualTime;
  readonly sabotage: Sabotage;
  /** How much longer than in a short world jobs run and processes stay away. */
  readonly pace: number;
  /** Faults strike only while this is set; without them a world must come to rest. */
  isTroubled: boolean;
  readonly violations: string[];
  readonly trace: string[];
  /** Points at which a process may have crashed, so far. */
  readonly points: string[];
  /** Machines made for agents, so far. */
  homes: number;
  /** An agent that crashes takes what its runtime knows with it. */
  readonly losesRuntimes: boolean;
  /** Whether the process that is at this point crashes here. */
  crashesAt(point: string): boolean;
  strikes(fault: Fault): boolean;
}

export interface WorldOptions {
  readonly seed: number;
  readonly sabotage?: Sabotage;
  readonly pace?: number;
  readonly chances?: Partial<Readonly<Record<Fault, number>>>;
  /** Crash at exactly this point and nowhere else. */
  readonly crashAtPoint?: number | undefined;
  readonly losesRuntimes?: boolean | undefined;
}

export const START_AT = 1_800_000_000_000;

export function createWorld(options: WorldOptions): World {
  const { seed, sabotage = "none", pace = 1, chances = {}, crashAtPoint } = options;
  const dice = createDice(seed);
  const world: World = {
    seed,
    dice,
    time: createVirtualTime(START_AT),
    sabotage,
    pace,
    isTroubled: true,
    violations: [],
    trace: [],
    points: [],
    homes: 0,
    losesRuntimes: options.losesRuntimes ?? false,
    crashesAt(point) {
      if (!world.isTroubled) return false;
      world.points.push(point);
      if (crashAtPoint === undefined) return dice.chance(chances.crash ?? 0);
      const isHere = world.points.length === crashAtPoint;
      if (isHere) note(world, `point ${crashAtPoint}: ${point}`);
      return isHere;
    },
    strikes: (fault) => {
      const chance = chances[fault] ?? 0;
      return world.isTroubled && chance > 0 && dice.chance(chance);
    },
  };
  return world;
}

export function note(world: World, text: string): void {
  world.trace.push(`${world.time.now - START_AT} ${text}`);
}

export function must(world: World, holds: boolean, promise: string, about = ""): void {
  if (holds) return;
  const text = about === "" ? promise : `${promise}: ${about}`;
  note(world, `VIOLATION ${text}`);
  world.violations.push(text);
}
