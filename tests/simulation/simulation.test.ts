import assert from "node:assert/strict";
import { test } from "node:test";
import { simulate } from "./simulation.ts";
import type { Sabotage } from "./world.ts";

const SEEDS = 50;

test(`${SEEDS} worlds full of trouble keep every promise`, () => {
  const broken = seeds(SEEDS).flatMap((seed) => {
    const { violations } = simulate({ seed });
    return violations.map((violation) => `seed ${seed}: ${violation}`);
  });

  assert.deepEqual(broken, []);
});

test("a seed is one world and no other", () => {
  assert.deepEqual(simulate({ seed: 5 }).trace, simulate({ seed: 5 }).trace);
  assert.notDeepEqual(simulate({ seed: 5 }).trace, simulate({ seed: 6 }).trace);
});

test("trouble does strike: agents and servers crash, and jobs outlive them", () => {
  const traces = seeds(5).flatMap((seed) => simulate({ seed }).trace);

  for (const event of ["agent crashes", "server crashes", "runtime starts"]) {
    assert.ok(
      traces.some((line) => line.includes(event)),
      `nothing of: ${event}`,
    );
  }
});

// Each rule broken on purpose: a simulation that cannot fail would prove nothing.
const BROKEN: Record<Exclude<Sabotage, "none">, string> = {
  "agent-acts-before-commit": "a command is acknowledged only when it is journaled",
  "server-acks-before-commit": "an event is acknowledged only when it is committed",
  "launches-are-forgotten": "an attempt is launched at most once",
  "agent-trusts-anyone": "a lie is never run",
};

for (const [sabotage, promise] of Object.entries(BROKEN)) {
  test(`notices when ${sabotage.replaceAll("-", " ")}`, () => {
    const violations = seeds(12).flatMap(
      (seed) => simulate({ seed, sabotage: sabotage as Sabotage }).violations,
    );

    assert.ok(violations.some((violation) => violation.startsWith(promise)));
  });
}

function seeds(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}
