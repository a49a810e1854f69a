// `npm run chaos -- --rounds N [--seed S] [--from N] [--only N]`: a whole Exclave on this machine, real processes,
// kills and damage while it is asked for things. The first rounds are a fixed list (scenarios.ts),
// those after it come from the seed. A round that fails is played alone with `--only`, as far as real
// processes allow: the strikes are the same, their moment is not.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createWorld, processes, untilHealthy, type World } from "../e2e/testing/harness.ts";
import { createDice } from "../simulation/dice.ts";
import { writeApp } from "./app.ts";
import { backUp } from "./damages.ts";
import { type Disk, IN_NAMESPACE, inOwnNamespace, mayMount, mountDisk } from "./disk.ts";
import { playRound, type Round } from "./round.ts";
import { FIXED_ROUNDS, scenarioOf } from "./scenarios.ts";
import { PROCESSES } from "./strikes.ts";
import { MAIN, type Wanted } from "./wishes.ts";

const BACKUP_EVERY = 3;

const options = readOptions();
process.exitCode = runElsewhere() ?? (await runHere());

/** Undefined where this process may mount, or nobody may. */
function runElsewhere(): number | undefined {
  if (mayMount() || process.env[IN_NAMESPACE] !== undefined) return undefined;
  return inOwnNamespace(fileURLToPath(import.meta.url), process.argv.slice(2));
}

async function runHere(): Promise<number> {
  const place = mkdtempSync(join(tmpdir(), "exclave-chaos-"));
  const disk = mountDisk(join(place, "home"));
  if (!disk.canBeFull) console.log("not played: a full disk, because mounting is not allowed here");
  const cleanUps: (() => Promise<void>)[] = [];
  const after = (work: () => Promise<void>) => void cleanUps.push(work);
  const clocks = join(place, "clocks");
  const environment = { EXCLAVE_TEST_CLOCK: clocks };
  const world = await createWorld({ after }, { place, environment });
  try {
    return await playAll(world, disk, clocks);
  } finally {
    for (const work of cleanUps) await work();
    if (process.env["EXCLAVE_KEEP"] === undefined) {
      disk.unmount();
      rmSync(place, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
    }
  }
}

async function playAll(world: World, disk: Disk, clocks: string): Promise<number> {
  const wanted: Wanted = { colour: "first", title: "first" };
  const { seed, from, rounds } = options;
  console.log(`chaos: seed ${seed}, rounds ${from} to ${rounds}`);
  await begin(world, wanted);
  const numbers = Array.from({ length: Math.max(0, rounds - from + 1) }, (_, at) => from + at);
  const played: Round[] = [];
  for (const number of numbers) {
    const round = await play(number, { world, disk, clocks, wanted, played });
    played.push(round);
    if (round.violations.length > 0) break;
  }
  await world.down();
  const left = processes(world.place).map(({ command }) => command);
  return summarise(played, left, numbers.length);
}

/** One install that is up, started by `up` itself: that one knows of the tests' clock. */
async function begin(world: World, wanted: Wanted): Promise<void> {
  await world.up();
  const app = writeApp(world, wanted.colour);
  await world.exclave("release", app, "--channel", "stable", "--wait");
  const input = ["--input", `title=${wanted.title}`];
  await world.exclave("install", "create", MAIN, "--app", "shop", ...input, "--wait");
  world.kill(...PROCESSES["sandbox supervisor"]);
  world.kill(...PROCESSES["install agent"]);
  await untilHealthy(world, MAIN);
}

interface Run {
  readonly world: World;
  readonly disk: Disk;
  readonly clocks: string;
  readonly wanted: Wanted;
  readonly played: readonly Round[];
}

async function play(number: number, { played, ...run }: Run): Promise<Round> {
  // Each round has dice of its own, so that one can be played without those before it.
  const dice = createDice(options.seed * 1_000 + number);
  const scenario = scenarioOf(number, dice);
  const backup = join(run.world.place, "backup");
  const before = played.at(-1)?.scenario.wish;
  // A backup from before an install was made or taken down is a loss of its own.
  const isStale = before === "create" || before === "destroy" || played.length === 0;
  if (isStale || number % BACKUP_EVERY === 1) backUp(run.world, backup);
  const askedBefore = played.flatMap(({ commands }) => commands);
  const { limitMs, patienceMs } = options;
  const say = (line: string) => console.log(line);
  const round = { ...run, dice, number, scenario, backup, askedBefore, limitMs, patienceMs, say };
  const end = await playRound(round);
  const verdict = end.violations.length === 0 ? "came to rest" : "FAILED";
  const seconds = Math.round(end.tookMs / 1_000);
  console.log(`round ${number} ${scenario.wish}: ${verdict} in ${seconds} s`);
  for (const violation of end.violations) console.log(`  - ${violation}`);
  return end;
}

function summarise(played: readonly Round[], left: readonly string[], wanted: number): number {
  const { seed } = options;
  const failed = played.filter(({ violations }) => violations.length > 0);
  if (left.length > 0) console.log(`left running:\n  ${left.join("\n  ")}`);
  for (const { number } of failed) {
    console.log(`this round alone: npm run chaos -- --seed ${seed} --only ${number}`);
    console.log(`all up to it:     npm run chaos -- --seed ${seed} --rounds ${number}`);
  }
  const struck = played.flatMap((round) => round.struck);
  const counts = [...new Set(struck)].map(
    (kind) => `${kind} ${struck.filter((one) => one === kind).length}`,
  );
  console.log(`struck: ${counts.toSorted().join(", ")}`);
  const missed = fixedKinds(played).filter((kind) => !struck.includes(kind));
  if (missed.length > 0) console.log(`never struck: ${missed.join(", ")}`);
  const commands = played.flatMap((round) => round.commands).length;
  const fixed = played.filter(({ number }) => number <= FIXED_ROUNDS).length;
  console.log(
    `${played.length} rounds (${fixed} of the fixed list), ${failed.length} failed, ${commands} commands that a hold named`,
  );
  const isShort = played.length < wanted || missed.length > 0;
  return failed.length > 0 || left.length > 0 || isShort ? 1 : 0;
}

/** What the fixed rounds were to kill: one that is never found is not what its words say. */
function fixedKinds(played: readonly Round[]): string[] {
  const fixed = played.filter(({ number }) => number <= FIXED_ROUNDS);
  return [...new Set(fixed.flatMap(({ scenario }) => scenario.kills))];
}

function readOptions() {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    options: {
      rounds: { ...text, default: "60" },
      seed: { ...text, default: String((Date.now() % 1_000_000) + 1) },
      from: { ...text, default: "1" },
      only: text,
      "limit-seconds": { ...text, default: "240" },
      "patience-seconds": { ...text, default: "10" },
    },
  });
  const only = values.only === undefined ? undefined : whole(values.only, "--only");
  return {
    from: only ?? whole(values.from, "--from"),
    rounds: only ?? whole(values.rounds, "--rounds"),
    seed: whole(values.seed, "--seed"),
    limitMs: whole(values["limit-seconds"], "--limit-seconds") * 1_000,
    patienceMs: whole(values["patience-seconds"], "--patience-seconds") * 1_000,
  };
}

function whole(text: string, option: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) {
    console.error(`${option} wants a whole number above zero, not ${text}`);
    process.exit(2);
  }
  return Number(text);
}
