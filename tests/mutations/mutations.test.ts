// Mutated offers and statements against the real verify path, from one seed: none is accepted. What
// refused them is counted by class, so that a class whose mutants are all trivially invalid shows.
//
//   npm run test:mutations                     100,000 of them
//   EXCLAVE_MUTATIONS=N EXCLAVE_SEED=S npm test -- tests/mutations

import assert from "node:assert/strict";
import { test } from "node:test";
import { createDice } from "../simulation/dice.ts";
import { countVerdicts } from "./count-verdicts.ts";
import { CLASSES, goodOffer, judge } from "./offers.ts";

const COUNT = Number(process.env["EXCLAVE_MUTATIONS"] ?? 5_000);
const SEED = Number(process.env["EXCLAVE_SEED"] ?? 20_261_116);

test("the offers that mutants are made of are accepted, every operation of them", () => {
  const dice = createDice(SEED);
  for (let tries = 0; tries < 200; tries++) assert.equal(judge(goodOffer(dice)), "accepted");
});

test(`of ${COUNT} mutated offers and statements none is accepted (seed ${SEED})`, () => {
  const counts = countVerdicts({ classes: CLASSES, judge, shown, count: COUNT, seed: SEED });

  // Mutants that the director's key signed have to reach the comparison with the statement.
  const compared = counts.get("the director alone changes what the release says");
  const reached = [...(compared ?? [])].filter(([verdict]) => verdict.startsWith("released: "));
  const times = reached.reduce((sum, [, count]) => sum + count, 0);
  assert.ok(times > COUNT / counts.size / 4, `${times} were compared with the statement`);
});

function shown({ envelope }: ReturnType<typeof goodOffer>): string {
  const { payload } = envelope as { payload?: string };
  return Buffer.from(payload ?? "", "base64").toString();
}
