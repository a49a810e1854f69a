// `npm run chaos -- --rounds N [--seed S]`: a whole Exclave on this machine, real processes, and random
// strikes while it is asked for things. Prints each round; the last line counts. A round that fails is
// played again with its seed and number, as far as real processes allow.

import { join } from "node:path";
import { parseArgs } from "node:util";
import { createWorld, processes, untilHealthy } from "../e2e/harness.ts";
import { writeShop } from "../e2e/shop-app.ts";
import { createDice } from "../simulation/dice.ts";
import { playRound, type Round } from "./round.ts";
import { backUp } from "./strikes.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "10" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    "limit-seconds": { type: "string", default: "180" },
  },
});
const rounds = whole(values.rounds, "--rounds");
const seed = whole(values.seed, "--seed");
const limitMs = whole(values["limit-seconds"], "--limit-seconds") * 1_000;

const cleanUps: (() => Promise<void>)[] = [];
const world = await createWorld({
  after: (work: () => Promise<void>) => void cleanUps.push(work),
} as never);
const played: Round[] = [];
try {
  await world.up();
  await world.exclave("release", writeShop(world), "--channel", "stable", "--wait");
  const input = ["--input", "title=Acme"];
  await world.exclave("install", "create", "acme", "--app", "shop", ...input, "--wait");
  await untilHealthy(world, "acme");
  console.log(`chaos: seed ${seed}, ${rounds} rounds`);
  for (let number = 1; number <= rounds; number++) {
    // Each round has dice of its own, so that one can be played without those before it.
    const dice = createDice(seed * 1_000 + number);
    const backup = join(world.place, "backup");
    if (number % 3 === 1) backUp(world, backup);
    const say = (line: string) => console.log(line);
    const round = await playRound({ world, dice, number, backup, say, limitMs });
    played.push(round);
    const verdict = round.violations.length === 0 ? "came to rest" : "FAILED";
    console.log(
      `round ${number} ${round.wish}: ${verdict} in ${Math.round(round.tookMs / 1_000)} s`,
    );
    for (const violation of round.violations) console.log(`  - ${violation}`);
    if (round.violations.length > 0) break;
  }
  await world.down();
  const left = processes(world.place).map(({ command }) => command);
  if (left.length > 0) console.log(`left running:\n  ${left.join("\n  ")}`);
  const failed = played.filter(({ violations }) => violations.length > 0).length;
  if (failed > 0) console.log(`replay: npm run chaos -- --seed ${seed} --rounds ${played.length}`);
  const commands = played.flatMap((round) => round.commands).length;
  console.log(`${played.length} rounds, ${failed} failed, ${commands} commands that a hold named`);
  process.exitCode = failed > 0 || left.length > 0 || played.length < rounds ? 1 : 0;
} finally {
  for (const work of cleanUps) await work();
}

function whole(text: string, option: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) {
    console.error(`${option} wants a whole number above zero, not ${text}`);
    process.exit(2);
  }
  return Number(text);
}
