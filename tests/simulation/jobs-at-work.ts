// What jobs really do: a setup makes a machine with an agent on it, a sync fills a registry, an apply
// deploys. Every start is held against what runs already and what ran before.

import { artifactKey, digestOf, type JobDocument, type JobLine } from "@exclave/core";
import type { Home } from "./home.ts";
import type { Performance, Started } from "./simulated-runtime.ts";
import { must, type World } from "./world.ts";

export interface AtWork {
  /** The setup agent made a place for an install: its agent is started there. */
  onSetUp(document: JobDocument): void;
  onTornDown(install: string): void;
  /** Whether there is a place of that install's: what a look at its sandbox says. */
  isStanding(install: string): boolean;
  /** When somebody last asked for something to be done again. */
  askedAt(install: string): number;
}

/** How many jobs an agent runs at a time, and beside them of those that only look. */
export const JOBS_MAX = 3;
export const DEBUG_JOBS_MAX = 2;
/** The type of component whose apply runs at most once. */
export const AT_MOST_ONCE = "migration";
const LOOKING = ["logs", "exec", "status"];

/** Whoever runs so long was asked to stop long before. */
const LONG_MS = 10 * 60_000;

const RESULT_FAILED = {
  type: "result",
  ok: false,
  failure: { code: "tool", message: "it did not work out" },
} as const;

export function perform(
  world: World,
  home: () => Home,
  document: JobDocument,
  atWork: AtWork,
): Performance {
  const { dice } = world;
  const fails = world.strikes("job-fails");
  const isLong = document.operation === "exec" && dice.chance(0.3);
  const mostMs = world.isTroubled
    ? world.pace * (document.type === AT_MOST_ONCE ? 3_000 : 1_000)
    : 500;
  const takesMs = isLong ? LONG_MS : 50 + dice.below(mostMs);
  const log: JobLine = { type: "log", level: "info", message: `at work ${dice.below(1_000_000)}` };
  if (fails) {
    const said =
      world.sabotage === "failures-are-hidden" ? { type: "result", ok: true } : RESULT_FAILED;
    return { lines: [log, said as JobLine], takesMs, ok: false };
  }
  return {
    lines: [log, ...(isLook(home(), document) ? lookedAt(document, atWork) : linesOf(document))],
    takesMs,
    ok: true,
    onEnd: () => act(home(), document, atWork),
  };
}

function isLook({ kind }: Home, { operation }: JobDocument): boolean {
  return kind === "setup" && operation === "status";
}

/** As the sandbox itself says it, when its agent is gone. */
function lookedAt({ installId = "" }: JobDocument, at: AtWork): JobLine[] {
  const seen = at.isStanding(installId)
    ? ({ health: "healthy", because: "it stands" } as const)
    : ({ health: "missing", because: "there is no such place" } as const);
  return [{ type: "result", ok: true, ...seen }];
}

function linesOf({ operation, component }: JobDocument): JobLine[] {
  const output: JobLine = {
    type: "output",
    name: "url",
    value: `at ${component}`,
    sensitive: false,
  };
  const result = { type: "result", ok: true } as const;
  switch (operation) {
    case "plan":
      return [
        { ...result, plan: { digest: digestOf({ component }), risk: "change", summary: "one" } },
      ];
    case "status":
      return [{ ...result, health: "healthy", because: "it answers" }];
    case "exec":
      return [{ ...result, exitCode: 0 }];
    case "apply":
      return [output, result];
    default:
      return [result];
  }
}

/** A line as a log shows it: of results only what no state of the job says. */
export function shownOf(line: JobLine): string {
  if (line.type === "log") return `${line.message}\n`;
  if (line.type === "output") return `output ${line.name} = ${JSON.stringify(line.value)}\n`;
  if (line.type !== "result") return "";
  if (!line.ok) return `failed: ${line.failure?.message}\n`;
  if (line.plan) return `plan: ${line.plan.summary}\n`;
  return line.health ? `${line.health}: ${line.because}\n` : "";
}

function act(home: Home, document: JobDocument, atWork: AtWork): void {
  const { operation, component = "", artifact, materials, installId = "" } = document;
  if (home.kind === "setup") {
    if (operation === "apply") atWork.onSetUp(document);
    if (operation === "destroy") atWork.onTornDown(installId);
    return;
  }
  if (operation === "sync")
    for (const material of materials) home.registry.add(artifactKey(material));
  if (operation === "apply") home.deployed.set(component, artifact?.digest ?? "");
  if (operation === "destroy") home.deployed.delete(component);
}

/** What every start is held to. */
export function checkStart(world: World, home: Home, started: Started, atWork: AtWork): void {
  const { document, name } = started;
  const { operation, component, installId = "" } = document;
  checkLimits(world, home, started);
  const isChange = operation === "apply" || operation === "destroy";
  const same = [...home.runtime.history.values()].filter(
    (other) =>
      other.name !== name &&
      other.document.component === component &&
      other.document.installId === installId,
  );
  if (isChange) {
    const other = same.find((one) => isChanging(one) && one.exit === undefined);
    const promise = "at most one changing job per component";
    must(world, other === undefined, promise, `${name} beside ${other?.name}`);
  }
  if (operation !== "apply" || document.type !== AT_MOST_ONCE) return;
  const promise = "what runs at most once is not run again by itself";
  must(world, started.times === 1, promise, `${name} is launched again`);
  const digest = document.artifact?.digest;
  const last = same.findLast(
    ({ document: { operation: what, artifact } }) =>
      what === "apply" && artifact?.digest === digest,
  );
  const wasCut = last !== undefined && last.ok === undefined;
  const isAsked = last !== undefined && atWork.askedAt(installId) >= last.startedAt;
  must(world, !wasCut || isAsked, promise, `${name} after ${last?.name}`);
}

/** Statuses on the agent's own schedule have places of their own. */
function checkLimits(world: World, { runtime, journals }: Home, { name, document }: Started): void {
  // Jobs that a lost journal knew are left alone, and are nobody's to count.
  if (name.startsWith("j-s-") || journals > 1) return;
  const isLooking = LOOKING.includes(document.operation);
  const beside = [...runtime.history.values()].filter(
    (other) =>
      other.name !== name &&
      other.exit === undefined &&
      !other.name.startsWith("j-s-") &&
      LOOKING.includes(other.document.operation) === isLooking,
  );
  const most = isLooking ? DEBUG_JOBS_MAX : JOBS_MAX;
  must(world, beside.length < most, "no more jobs run at a time than may", `${name} is one more`);
}

function isChanging({ document: { operation } }: Started): boolean {
  return operation === "apply" || operation === "destroy";
}
