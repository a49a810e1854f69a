// One round: something a vendor asks for, strikes in the middle of it, and then patience. The round is
// good when the install comes to rest as wanted by itself, or after the one command its hold names.

import { setTimeout as sleep } from "node:timers/promises";
import type { InstallView } from "@exclave/api";
import { isSettled, repeated, type World } from "../e2e/harness.ts";
import { trail, writeShop } from "../e2e/shop-app.ts";
import type { Dice } from "../simulation/dice.ts";
import { DAMAGES, type DamagedPlace, killOne, PROCESSES, type ProcessKind } from "./strikes.ts";

export interface Round {
  readonly number: number;
  readonly wish: string;
  readonly strikes: readonly string[];
  /** Commands a hold named, which were run. */
  readonly commands: readonly string[];
  readonly violations: readonly string[];
  readonly tookMs: number;
}

export interface RoundOptions {
  readonly world: World;
  readonly dice: Dice;
  readonly number: number;
  readonly backup: string;
  readonly say: (line: string) => void;
  readonly limitMs: number;
}

const WISHES = ["release", "release", "exec", "logs", "create", "destroy"] as const;
const KINDS = Object.keys(PROCESSES) as ProcessKind[];
const COLOURS = ["red", "orange", "yellow", "green", "blue", "violet", "white", "black"];

export async function playRound(options: RoundOptions): Promise<Round> {
  const { world, dice, number } = options;
  const startedAt = Date.now();
  const wish = dice.pick(WISHES) ?? "release";
  const colour = `${dice.pick(COLOURS)}-${number}`;
  const asked = ask(options, wish, colour);
  const strikes = await strike(options);
  const outcome = await asked;
  const { commands, violations } = await comeToRest(options, wish, colour);

  const twice = repeated(trail(world));
  if (twice.length > 0) violations.push(`started twice: ${twice.join(", ")}`);
  const verified = await world.attempt("audit", "verify");
  if (verified.code !== 0) violations.push(`the record is broken: ${verified.stderr.trim()}`);
  if (/a bug in exclave|^\s+at .*\.ts:/m.test(outcome))
    violations.push(`not a sentence: ${outcome}`);
  return { number, wish, strikes, commands, violations, tookMs: Date.now() - startedAt };
}

/** Returns what went to stderr: whatever happens, it is in sentences. */
async function ask(options: RoundOptions, wish: string, colour: string): Promise<string> {
  const { world, number } = options;
  switch (wish) {
    case "exec": {
      const mark = `${world.place}/trail.txt`;
      const line = `exec ${number}`;
      const command = `echo "${line}" >> ${mark}; sleep 2; echo done`;
      return (await world.attempt("exec", "acme", "web", "--", "sh", "-c", command)).stderr;
    }
    case "logs":
      return (await world.attempt("logs", "acme", "web", "--tail", "20")).stderr;
    case "create": {
      const name = `extra-${number}`;
      const input = ["--input", "title=Extra"];
      return (await world.attempt("install", "create", name, "--app", "shop", ...input)).stderr;
    }
    case "destroy": {
      const listed = await installs(world).catch(() => []);
      const extra = listed.find(({ name }) => name.startsWith("extra-"));
      if (!extra) return "";
      return (await world.attempt("install", "destroy", extra.name, "--yes")).stderr;
    }
    default: {
      writeShop(world, { colour, applySeconds: 2 });
      return (await world.attempt("release", "shop", "--channel", "stable", "--wait")).stderr;
    }
  }
}

async function strike(options: RoundOptions): Promise<string[]> {
  const { world, dice } = options;
  const done: string[] = [];
  const count = 1 + dice.below(4);
  for (let index = 0; index < count; index++) {
    await sleep(200 + dice.below(3_000));
    done.push(killOne(world, dice.pick(KINDS) ?? "server", dice));
  }
  if (dice.chance(0.4)) {
    const damage = dice.pick(DAMAGES);
    const place: DamagedPlace = { ...options, install: `${world.home}/installs/acme` };
    const what = damage?.strike(place);
    if (damage && what !== undefined) done.push(`${damage.name}: ${what}`);
  }
  for (const line of done) options.say(`  ${line}`);
  return done;
}

async function comeToRest(
  options: RoundOptions,
  wish: string,
  colour: string,
): Promise<{ commands: string[]; violations: string[] }> {
  const { world, limitMs, say } = options;
  const commands: string[] = [];
  let end = Date.now() + limitMs;
  let last = "nothing was seen";
  while (Date.now() < end) {
    await sleep(1_000);
    try {
      const seen = await installs(world);
      last = JSON.stringify(seen.map(brief));
      if (seen.every((install) => isAtRest(install))) {
        if (wish !== "release" || (await colourOf(seen)) === colour) {
          return { commands, violations: [] };
        }
      }
      const command = seen.map(commandNamed).find((named) => named && !commands.includes(named));
      if (command !== undefined && Date.now() > end - limitMs / 2) {
        say(`  the hold names: ${command}`);
        commands.push(command);
        // The app's own directory stands in for the word a person would fill in.
        const words = command
          .replace(/^exclave /, "")
          .replace("DIRECTORY", "shop")
          .split(" ");
        await world.attempt(
          ...words,
          ...(words[1] === "destroy" || words[1] === "forget" ? ["--yes"] : []),
        );
        end = Date.now() + limitMs;
      }
    } catch (reason) {
      last = reason instanceof Error ? reason.message.slice(0, 1_000) : String(reason);
    }
  }
  return { commands, violations: [`did not come to rest: ${last}`] };
}

async function installs(world: World): Promise<InstallView[]> {
  return world.json<InstallView[]>("install", "list");
}

function isAtRest(install: InstallView): boolean {
  return install.phase === "destroyed" || isSettled(install);
}

/** The command by which a person ends what a hold is about. */
function commandNamed({ holds }: InstallView): string | undefined {
  const texts = holds.flatMap(({ because, endsWhen }) => [endsWhen ?? "", because]);
  return texts.join(" ").match(/`(exclave (?:install|release)[^`]*)`/)?.[1];
}

async function colourOf(seen: readonly InstallView[]): Promise<string | undefined> {
  const acme = seen.find(({ name }) => name === "acme");
  const url = acme?.components.find(({ name }) => name === "web")?.outputs["url"];
  if (typeof url !== "string") return undefined;
  return ((await (await fetch(url)).json()) as { colour: string }).colour;
}

function brief({ name, phase, health, holds }: InstallView) {
  return { name, phase, health, holds: holds.map(({ because }) => because) };
}
