// What a round plays. The first rounds are a fixed list, so that every kind of process dies and every
// kind of damage is done in every run that is long enough; those after it are diced.

import type { Dice } from "../simulation/dice.ts";
import { DAMAGE_KINDS, type DamageKind } from "./damages.ts";
import { KINDS, type ProcessKind } from "./strikes.ts";

export const WISHES = ["release", "deploy", "exec", "logs", "create", "destroy", "setup"] as const;
export type Wish = (typeof WISHES)[number];

export interface Scenario {
  readonly wish: Wish;
  readonly kills: readonly ProcessKind[];
  readonly damage?: DamageKind | undefined;
  /** How long a process that is to be killed may take to appear. */
  readonly appearsWithinMs: number;
}

type Sketch = Omit<Scenario, "appearsWithinMs">;

const FIXED: readonly Sketch[] = [
  { wish: "release", kills: ["server", "build agent", "signer"] },
  { wish: "create", kills: ["setup agent", "job keeper", "server"] },
  { wish: "release", kills: ["install agent", "install registry", "job keeper"] },
  { wish: "release", kills: ["at-most-once program"] },
  // The program first: it lives for a second, and a runner is found at any time.
  { wish: "release", kills: ["job program", "job runner"] },
  { wish: "deploy", kills: ["sandbox supervisor", "install agent"] },
  { wish: "deploy", kills: ["service supervisor", "service program"] },
  { wish: "exec", kills: ["server", "service program"] },
  { wish: "logs", kills: ["server", "install agent"] },
  { wish: "destroy", kills: ["install agent", "sandbox supervisor", "setup agent"] },
  { wish: "release", kills: ["up"] },
  { wish: "setup", kills: ["setup agent"] },
  ...DAMAGE_KINDS.map((damage): Sketch => ({ wish: "release", kills: [], damage })),
  { wish: "create", kills: ["install registry"], damage: "disk full" },
  { wish: "destroy", kills: ["install registry"], damage: "registry" },
];

/** After the loss of both, schedules come back when nobody has looked for 90 seconds: once is enough. */
const OFTEN = DAMAGE_KINDS.filter((kind) => kind !== "journal and vault");

export const FIXED_ROUNDS = FIXED.length;

export function scenarioOf(number: number, dice: Dice): Scenario {
  const fixed = FIXED[number - 1];
  if (fixed) return { ...fixed, appearsWithinMs: 60_000 };
  const wish = dice.pick(["release", ...WISHES] as const) ?? "release";
  const kills = Array.from({ length: 1 + dice.below(4) }, () => dice.pick(KINDS) ?? "server");
  const chosen = dice.chance(0.4) ? dice.pick(OFTEN) : undefined;
  const damage = isForgetful(wish, chosen) ? undefined : chosen;
  return { wish, kills, damage, appearsWithinMs: 800 };
}

/** An install the server was restored to know nothing of is not one it can bring to rest. */
function isForgetful(wish: Wish, damage: DamageKind | undefined): boolean {
  return damage === "backup restored" && (wish === "create" || wish === "destroy");
}
