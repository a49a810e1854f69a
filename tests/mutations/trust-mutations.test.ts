// Mutated trust documents and cancels against what an agent judges them by, from one seed: none is
// accepted. Counted by class and by the check that refused them, like offers (mutations.test.ts).

import assert from "node:assert/strict";
import { test } from "node:test";
import { createDice } from "../simulation/dice.ts";
import { CLASSES, goodMessage, judge } from "./trust.ts";

const COUNT = Number(process.env["EXCLAVE_MUTATIONS"] ?? 2_000);
const SEED = Number(process.env["EXCLAVE_SEED"] ?? 20_261_116);

test("the trust documents and cancels that mutants are made of are accepted", () => {
  const dice = createDice(SEED);
  for (let tries = 0; tries < 200; tries++) assert.equal(judge(goodMessage(dice)), "accepted");
});

test(`of ${COUNT} mutated trust documents and cancels none is accepted (seed ${SEED})`, () => {
  const classes = Object.entries(CLASSES);
  const dice = createDice(SEED);
  const counts = new Map(classes.map(([name]) => [name, new Map<string, number>()]));
  const accepted: string[] = [];

  for (let made = 0; made < COUNT; made++) {
    const [name, make] = classes[made % classes.length] ?? assert.fail();
    const message = make(dice);
    const verdict = judge(message);
    const count = counts.get(name) ?? assert.fail();
    count.set(verdict, (count.get(verdict) ?? 0) + 1);
    if (verdict === "accepted" && accepted.length < 5) {
      accepted.push(`${name}: ${JSON.stringify(message.envelope)}`);
    }
  }

  for (const [name, count] of counts) {
    console.log(name);
    for (const [verdict, times] of [...count].toSorted((a, b) => b[1] - a[1])) {
      console.log(`  ${String(times).padStart(7)}  ${verdict}`);
    }
  }
  assert.deepEqual(accepted, []);
  // What root or the director signed has to reach the checks behind the signature.
  const reached = (name: string, verdict: string) => counts.get(name)?.get(verdict) ?? 0;
  const share = COUNT / classes.length;
  assert.ok(reached("the root signs a version that is not the next", "trust: replayed") > 0);
  assert.ok(
    reached("the director cancels something else, or at another time", "cancel: wrong_install") >
      share / 8,
  );
});
