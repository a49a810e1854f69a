// Mutants of each class in turn, judged, counted by class and by what was said of them.

import assert from "node:assert/strict";
import { createDice, type Dice } from "../simulation/dice.ts";

export type Counts = ReadonlyMap<string, ReadonlyMap<string, number>>;

/** Fails when one is accepted. A class whose mutants are all trivially invalid shows in what is printed. */
export function countVerdicts<Mutant>({
  classes,
  judge,
  shown,
  count,
  seed,
}: {
  readonly classes: Readonly<Record<string, (dice: Dice) => Mutant>>;
  readonly judge: (mutant: Mutant) => string;
  readonly shown: (mutant: Mutant) => string;
  readonly count: number;
  readonly seed: number;
}): Counts {
  const makers = Object.entries(classes);
  const dice = createDice(seed);
  const counts = new Map(makers.map(([name]) => [name, new Map<string, number>()]));
  const accepted: string[] = [];

  for (let made = 0; made < count; made++) {
    const [name, make] = makers[made % makers.length] ?? assert.fail();
    const mutant = make(dice);
    const verdict = judge(mutant);
    const seen = counts.get(name) ?? assert.fail();
    seen.set(verdict, (seen.get(verdict) ?? 0) + 1);
    if (verdict === "accepted" && accepted.length < 5) accepted.push(`${name}: ${shown(mutant)}`);
  }

  for (const [name, seen] of counts) {
    console.log(name);
    for (const [verdict, times] of [...seen].toSorted((a, b) => b[1] - a[1])) {
      console.log(`  ${String(times).padStart(7)}  ${verdict}`);
    }
  }
  assert.deepEqual(accepted, []);
  return counts;
}
