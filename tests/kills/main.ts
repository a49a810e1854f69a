// `npm run kills -- [--kills N] [--seed S] [--installs N]`: a whole Exclave on a real PostgreSQL, with installs that are given
// one debug command after another, while servers, agents, jobs and the database's own processes are killed at random.
// Afterwards everything has to come to rest: every job that was answered for has an end, none ran twice, the log of
// each that succeeded is whole, and the record verifies.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import {
  findPostgres,
  type PostgresCluster,
  startPostgres,
} from "@exclave/server/testing/postgres";
import { comeToRest } from "../chaos/rest.ts";
import {
  createWorld,
  processes,
  repeated,
  untilHealthy,
  type World,
} from "../e2e/testing/harness.ts";
import { trail, writeShop } from "../e2e/testing/shop-app.ts";
import { createDice } from "../simulation/dice.ts";
import { createCommands } from "./commands.ts";
import { KILLS, killOne } from "./kill-one.ts";

const KILL_EVERY_MS = 700;
const REST_MS = 240_000;
const HOLD_MS = 10_000;

const options = readOptions();
process.exitCode = await run();

async function run(): Promise<number> {
  const programs = findPostgres();
  if (programs === undefined) {
    console.log("not run: no postgres on this machine (apt-get install postgresql)");
    return 0;
  }
  const place = mkdtempSync(join(tmpdir(), "exclave-kills-"));
  const cleanUps: (() => Promise<void>)[] = [];
  const cluster = await startPostgres(programs, { isDurable: true });
  try {
    const environment = { EXCLAVE_DATABASE_URL: await cluster.create() };
    const after = (work: () => Promise<void>) => void cleanUps.push(work);
    return await play(await createWorld({ after }, { place, environment }), cluster);
  } finally {
    for (const work of cleanUps) await work();
    await cluster.stop();
    if (process.env["EXCLAVE_KEEP"]) console.error(`kept ${place}`);
    else rmSync(place, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}

async function play(world: World, cluster: PostgresCluster): Promise<number> {
  const { seed, kills, installs } = options;
  console.log(`kills: seed ${seed}, ${kills} kills, ${installs} installs`);
  const names = await begin(world, installs);
  const commands = createCommands(world, names);
  const dice = createDice(seed);
  const counts = new Map<string, number>(KILLS.map((kind) => [kind, 0]));
  let done = 0;
  while (done < kills) {
    await sleep(dice.below(KILL_EVERY_MS * 2));
    const struck = await killOne(world, cluster, dice);
    if (struck === undefined) continue;
    counts.set(struck, (counts.get(struck) ?? 0) + 1);
    done++;
    if (done % 50 === 0) console.log(`  ${done} kills, ${commands.answered().length} jobs`);
  }
  const rest = await comeToRest({
    world,
    limitMs: REST_MS,
    patienceMs: HOLD_MS,
    say: (line) => console.log(line),
    missing: async () => undefined,
  });
  await commands.stop();
  const wrong = [
    ...(rest.violation === undefined ? [] : [rest.violation]),
    ...(await commands.wrong()),
    ...repeated(trail(world)).map((line) => `ran twice: ${line}`),
    ...(await unverified(world)),
    ...[...counts].filter(([, count]) => count === 0).map(([kind]) => `never killed: ${kind}`),
  ];
  const asked = commands.answered().length;
  await world.down();
  const left = processes(world.place).map(({ command }) => `left running: ${command}`);
  const all = [...wrong, ...left];
  for (const one of all) console.log(`  - ${one}`);
  if (all.length > 0) console.log(`again: npm run kills -- --kills ${kills} --seed ${seed}`);
  const struck = [...counts].map(([kind, count]) => `${kind} ${count}`).join(", ");
  console.log(`${done} kills (${struck}), ${asked} jobs, ${all.length} wrong`);
  return all.length > 0 ? 1 : 0;
}

async function begin(world: World, count: number): Promise<string[]> {
  await world.up();
  writeShop(world, { withReports: false });
  await world.exclave("release", "shop", "--channel", "stable", "--wait");
  const names = Array.from({ length: count }, (_, n) => `customer-${n + 1}`);
  for (const name of names) {
    await world.exclave("install", "create", name, "--app", "shop", "--input", "title=Kills");
  }
  for (const name of names) await untilHealthy(world, name);
  return names;
}

async function unverified(world: World): Promise<string[]> {
  const { code, stderr } = await world.attempt("audit", "verify");
  return code === 0 ? [] : [`the record does not verify: ${stderr.trim()}`];
}

function readOptions() {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    options: {
      kills: { ...text, default: "300" },
      seed: { ...text, default: "1" },
      installs: { ...text, default: "3" },
    },
  });
  return {
    kills: whole(values.kills, "--kills"),
    seed: whole(values.seed, "--seed"),
    installs: whole(values.installs, "--installs"),
  };
}

function whole(text: string, option: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) {
    console.error(`${option} wants a whole number above zero, not ${text}`);
    process.exit(2);
  }
  return Number(text);
}
