// One round: something a vendor asks for, strikes in the middle of it, and then patience. The round is
// good when the installs come to rest as wanted by themselves, or after the one command a hold names.

import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { processes, type World } from "../e2e/testing/harness.ts";
import { ranTwice } from "./app.ts";
import { DAMAGES, type DamagedPlace } from "./damages.ts";
import { comeToRest, installs } from "./rest.ts";
import type { Scenario } from "./scenarios.ts";
import { killOne } from "./strikes.ts";
import { type Asked, homeOf, MAIN, makeWish, type Wanted } from "./wishes.ts";

export interface Round {
  readonly number: number;
  readonly scenario: Scenario;
  /** What was done, by kind: a strike that found nothing is not one. */
  readonly struck: readonly string[];
  /** Commands a hold named, which were run. */
  readonly commands: readonly string[];
  readonly violations: readonly string[];
  readonly tookMs: number;
}

export interface RoundOptions extends Omit<DamagedPlace, "install"> {
  readonly number: number;
  readonly scenario: Scenario;
  readonly wanted: Wanted;
  /** Commands of earlier rounds that asked for something to be run again. */
  readonly askedBefore: readonly string[];
  readonly say: (line: string) => void;
  readonly limitMs: number;
  readonly patienceMs: number;
}

const SPREAD_MS = 1_500;
const UNDONE_AFTER_MS = 4_000;

export async function playRound(options: RoundOptions): Promise<Round> {
  const { number, scenario, say } = options;
  const startedAt = Date.now();
  const wish = await wishOf(options);
  const asking = wish.ask();
  const struck = await strike(options, wish);
  const answer = await asking;
  const violations: string[] = [];
  const commands: string[] = [];
  const patience = { ...options, missing: wish.missing };
  // What failed, or was answered by a server that then lost its record, is asked for again, as a person would.
  const isLost = answer.code !== 0 || struck.includes("backup restored");
  const first = await comeToRest(
    isLost ? { ...patience, missing: async () => undefined } : patience,
  );
  commands.push(...first.commands);
  if (first.violation !== undefined) violations.push(first.violation);
  if (isLost && violations.length === 0) {
    const again = await wish.ask();
    if (again.code !== 0) say(`  asked again: ${again.stderr.trim().slice(0, 500)}`);
    const second = await comeToRest(patience);
    commands.push(...second.commands);
    if (second.violation !== undefined) violations.push(second.violation);
  }
  violations.push(...(await check(options, [...options.askedBefore, ...commands], answer.stderr)));
  return { number, scenario, struck, commands, violations, tookMs: Date.now() - startedAt };
}

async function wishOf({ world, number, wanted, scenario }: RoundOptions): Promise<Asked> {
  const names = (await installs(world)).map(({ name }) => name);
  const extras = names.filter((name) => name !== MAIN);
  return makeWish(scenario.wish, { world, number, wanted, extras });
}

async function strike(options: RoundOptions, wish: Asked): Promise<string[]> {
  const { world, dice, scenario, say } = options;
  const struck: string[] = [];
  for (const kind of scenario.kills) {
    await sleep(dice.below(SPREAD_MS));
    const what = await killOne(world, kind, dice, scenario.appearsWithinMs);
    say(`  ${what ?? `found no ${kind}`}`);
    if (what !== undefined) struck.push(kind);
  }
  if (scenario.damage === undefined) return struck;
  await sleep(200 + dice.below(SPREAD_MS));
  const own = homeOf(world, wish.install);
  const install = existsSync(own) ? own : homeOf(world, MAIN);
  const damaged = DAMAGES[scenario.damage]({ ...options, install });
  say(`  ${scenario.damage}: ${damaged?.what ?? "there was nothing to damage"}`);
  if (!damaged) return struck;
  if ("undo" in damaged && damaged.undo) {
    await sleep(UNDONE_AFTER_MS);
    damaged.undo();
  }
  return [...struck, scenario.damage];
}

/** What must hold whatever happened. */
async function check(
  { world }: RoundOptions,
  commands: readonly string[],
  said: string,
): Promise<string[]> {
  const violations: string[] = [];
  const twice = ranTwice(world, commands);
  if (twice.length > 0) violations.push(`ran twice: ${twice.join(", ")}`);
  const verified = await world.attempt("audit", "verify");
  if (verified.code !== 0) violations.push(`the record is broken: ${verified.stderr.trim()}`);
  if (/a bug in exclave|^\s+at .*\.ts:/m.test(said)) violations.push(`not a sentence: ${said}`);
  const left = await leftRunning(world);
  if (left.length > 0) violations.push(`runs on in an install that is gone: ${left.join("; ")}`);
  return violations;
}

/** Nothing of a destroyed install runs any more; its name is then free for another. */
async function leftRunning(world: World): Promise<string[]> {
  const gone = (await installs(world)).filter(({ phase }) => phase === "destroyed");
  const left: string[] = [];
  for (const { name } of gone) {
    const home = `${homeOf(world, name)}/`;
    left.push(...processes(home).map(({ command }) => command));
    await world.exclave("install", "forget", name, "--yes");
  }
  return left;
}
