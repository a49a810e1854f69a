// Mutated trust documents and cancels against what an agent judges them by, from one seed: none is
// accepted. Counted by class and by the check that refused them, like offers (mutations.test.ts).

import assert from "node:assert/strict";
import { test } from "node:test";
import { createDice } from "../simulation/dice.ts";
import { countVerdicts } from "./count-verdicts.ts";
import { CLASSES, goodMessage, judge } from "./trust.ts";

const COUNT = Number(process.env["EXCLAVE_MUTATIONS"] ?? 2_000);
const SEED = Number(process.env["EXCLAVE_SEED"] ?? 20_261_116);

test("the trust documents and cancels that mutants are made of are accepted", () => {
  const dice = createDice(SEED);
  for (let tries = 0; tries < 200; tries++) assert.equal(judge(goodMessage(dice)), "accepted");
});

test(`of ${COUNT} mutated trust documents and cancels none is accepted (seed ${SEED})`, () => {
  const counts = countVerdicts({
    classes: CLASSES,
    judge,
    shown: ({ envelope }) => JSON.stringify(envelope),
    count: COUNT,
    seed: SEED,
  });

  // What root or the director signed has to reach the checks behind the signature.
  const reached = (name: string, verdict: string) => counts.get(name)?.get(verdict) ?? 0;
  const share = COUNT / counts.size;
  assert.ok(reached("the root signs a version that is not the next", "trust: replayed") > 0);
  assert.ok(
    reached("the director cancels something else, or at another time", "cancel: wrong_install") >
      share / 8,
  );
});
