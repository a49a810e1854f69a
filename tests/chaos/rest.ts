// Patience: until every install is as wanted, by itself or after the one command that a hold names,
// which is then run as it is printed.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, type HoldView, type InstallView, listInstalls } from "@exclave/api";
import { isSettled, type World } from "../e2e/testing/harness.ts";
import { APP } from "./app.ts";

export interface RestOptions {
  readonly world: World;
  readonly limitMs: number;
  /** How long a hold stands before its command is run: most end by themselves. */
  readonly patienceMs: number;
  readonly say: (line: string) => void;
  /** What is still missing of what was asked for. */
  readonly missing: (seen: readonly InstallView[]) => Promise<string | undefined>;
}

export interface Rest {
  readonly commands: readonly string[];
  readonly violation?: string;
}

const LOOK_MS = 700;

export async function comeToRest(options: RestOptions): Promise<Rest> {
  const { world, limitMs, patienceMs, say, missing } = options;
  const commands: string[] = [];
  const done = new Set<string>();
  const since = new Map<string, number>();
  let end = Date.now() + limitMs;
  let last = "nothing was seen";
  let restful = 0;
  while (Date.now() < end) {
    await sleep(LOOK_MS);
    try {
      const seen = await installs(world);
      const lack = seen.every(isAtRest) ? await missing(seen) : "not at rest";
      last = `${lack}: ${JSON.stringify(seen.map(brief))}`;
      restful = lack === undefined ? restful + 1 : 0;
      // Twice in a row: what was struck a moment ago may not have been noticed yet.
      if (restful >= 2) return { commands };
      const hold = lack === undefined ? undefined : steadyHold(seen, since, patienceMs);
      if (!hold?.command) continue;
      const key = `${hold.because}: ${hold.command}`;
      if (done.has(key)) continue;
      done.add(key);
      say(`  the hold says: ${hold.because}; ${hold.endsWhen}`);
      commands.push(hold.command);
      const result = await runAsPrinted(world, hold.command);
      if (result.code !== 0) {
        return { commands, violation: `${hold.command} does not work: ${result.stderr.trim()}` };
      }
      since.clear();
      end = Date.now() + limitMs;
    } catch (reason) {
      restful = 0;
      last = reason instanceof Error ? reason.message.slice(0, 1_000) : String(reason);
    }
  }
  return { commands, violation: `did not come to rest: ${last}` };
}

/** A release is made where its app lies; a question whether one is sure is answered. */
async function runAsPrinted(world: World, command: string) {
  const words = command.split(" ").slice(1);
  const isSure = words[1] === "destroy" || words[1] === "forget" ? ["--yes"] : [];
  return world.attemptIn(join(world.place, APP), ...words, ...isSure);
}

/** One that has been there for a while with nothing at work. */
function steadyHold(
  seen: readonly InstallView[],
  since: Map<string, number>,
  patienceMs: number,
): HoldView | undefined {
  const holds = seen.flatMap((install) =>
    install.components.some(({ activeJob }) => activeJob !== null) ? [] : install.holds,
  );
  const named = holds.filter(({ command }) => command !== null);
  const names = named.map(({ because, command }) => `${because}: ${command}`);
  for (const name of since.keys()) if (!names.includes(name)) since.delete(name);
  for (const name of names) if (!since.has(name)) since.set(name, Date.now());
  return named.find(({ because, command }) => {
    const at = since.get(`${because}: ${command}`) ?? Date.now();
    return Date.now() - at >= patienceMs;
  });
}

export async function installs(world: World): Promise<InstallView[]> {
  const url = /ready at (\S+)/.exec(world.upOutput())?.[1];
  const tokenFile = join(world.home, "server", "admin-token");
  if (url === undefined || !existsSync(tokenFile)) throw new Error("nothing is up");
  const client = createClient({ url, token: readFileSync(tokenFile, "utf8").trim() });
  const { items } = await client.call(listInstalls, { query: { limit: 100 } });
  return items;
}

function isAtRest(install: InstallView): boolean {
  return install.phase === "destroyed" || isSettled(install);
}

function brief({ name, phase, health, agent, holds, components }: InstallView) {
  return {
    name,
    phase,
    health,
    agent: agent.status,
    holds: holds.map(({ because, endsWhen }) => `${because}; ends when ${endsWhen}`),
    components: components
      .filter(({ state, health: one }) => state !== "deployed" || one !== "healthy")
      .map((one) => `${one.name}: ${one.state}, ${one.health}: ${one.healthBecause}`),
  };
}
