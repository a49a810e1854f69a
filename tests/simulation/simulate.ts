// One world from one seed: production server and agents in virtual time. Faults strike at any effect,
// then the trouble ends, the world comes to rest, and the promises are looked at.

import { artifactKey, type JobDocument } from "@exclave/core";
import { createJoin } from "@exclave/server/simulation";
import { type AgentSide, createAgentSide } from "./agent-side.ts";
import { rollWith } from "./determinism.ts";
import { createDice } from "./dice.ts";
import { createHome, type Home } from "./home.ts";
import { type AtWork, checkStart, perform } from "./jobs-at-work.ts";
import { createOperator, type Operator } from "./operator.ts";
import { checkAtRest, restOf } from "./promises.ts";
import { createServerSide, type ServerSide } from "./server-side.ts";
import { createSimulatedRuntime, type SimulatedRuntime } from "./simulated-runtime.ts";
import { APP, CHANNEL, forgetLater, RELEASES } from "./vendor.ts";
import { settle, settleWholly } from "./virtual-timers.ts";
import { createWorld, type Fault, must, note, type Sabotage, type World } from "./world.ts";

export interface SimulationOptions {
  readonly seed: number;
  readonly sabotage?: Sabotage;
  /** How long faults strike; most worlds are short, some are long. */
  readonly troubleMs?: number;
  /** Faults that strike more often than the seed says. */
  readonly chances?: Partial<Record<Fault, number>>;
}

export interface SimulationReport {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly trace: readonly string[];
  readonly jobs: number;
}

export interface Parts {
  readonly world: World;
  readonly server: ServerSide;
  readonly agents: Map<string, AgentSide>;
  readonly operator: Operator;
}

const SHORT_MS = 10_000;
const LONG_MS = 40_000;
const LONG_EVERY = 8;
const REST_MS_MAX = 60 * 60_000;
const LOOK_EVERY_MS = 2_000;
const HELPS_MAX = 8;

/** Each seed has its own mixture of trouble. */
function chancesOf(seed: number): Partial<Record<Fault, number>> {
  const dice = createDice(seed * 7_919);
  const some = (chance: number) => (dice.chance(0.4) ? chance : 0);
  return {
    crash: dice.chance(0.5) ? 0.006 : 0.001,
    "frame-lost": some(0.02),
    "runtime-error": some(0.03),
    "runtime-error-after": some(0.1),
    "job-fails": some(0.15),
    "commit-fails": some(0.01),
    lie: some(0.15),
    "machine-restarts": some(0.15),
    "disk-full": some(0.2),
    "clock-jumps": some(0.1),
    "journal-lost": some(0.15),
    "backup-restored": some(0.3),
  };
}

export async function simulate(options: SimulationOptions): Promise<SimulationReport> {
  const { seed, sabotage = "none" } = options;
  const { troubleMs = seed % LONG_EVERY === 0 ? LONG_MS : SHORT_MS } = options;
  const pace = troubleMs / SHORT_MS;
  const chances = { ...chancesOf(seed), ...options.chances };
  const world = createWorld({ seed, sabotage, pace, chances });
  const parts = await begin(world);
  await trouble(parts, troubleMs);
  await comeToRest(parts);
  await checkAtRest(parts);
  await settleWholly();
  const { violations, trace } = world;
  const jobs = [...(parts.server.disk.data.nouns.get("jobs")?.keys() ?? [])].length;
  return { seed, violations, trace, jobs };
}

export async function begin(world: World): Promise<Parts> {
  rollWith(world.dice);
  forgetLater();
  const server = createServerSide(world);
  const agents = new Map<string, AgentSide>();
  const operator = createOperator(world, server);
  const parts = { world, server, agents, operator };
  world.isTroubled = false;
  server.start();
  await settle();
  await publish(server);
  const { context } = server;
  if (!context) throw new TypeError("the server is up");
  const joinString = await context.store.transaction(async (tx) => {
    const wanted = { kind: "setup", audience: "setup", by: "operator" } as const;
    return (await createJoin(tx, context, wanted)).joinString;
  });
  addAgent(parts, { kind: "setup", name: "setup", audience: "setup", joinString }).start();
  await pass(parts, 3_000);
  world.isTroubled = true;
  return parts;
}

async function publish({ context }: ServerSide): Promise<void> {
  const [first] = RELEASES;
  if (!context || !first) return;
  const at = context.now();
  await context.store.transaction(async (tx) => {
    await tx.apps.put({ id: APP, name: "crm", createdAt: at });
    await tx.releases.put(first.row);
    await tx.channels.put({
      app: APP,
      appName: "crm",
      name: CHANNEL,
      release: first.row.id,
      movedAt: at,
      askedAt: at,
    });
  });
}

function addAgent(
  parts: Parts,
  about: Pick<Home, "kind" | "name" | "audience" | "joinString">,
): AgentSide {
  const { world, server, agents } = parts;
  const atWork: AtWork = {
    onSetUp: (document) => setUp(parts, document),
    onTornDown: (install) => tearDown(parts, install),
    isStanding: (install) => parts.agents.get(install)?.home.isGone === false,
    askedAt: (install) => parts.operator.askedAt(install),
  };
  const runtime: SimulatedRuntime = createSimulatedRuntime(world, {
    name: about.name,
    perform: (document) => perform(world, () => home, document, atWork),
    onStart(started) {
      const isLie = server.lies.told.has(started.document.job);
      must(world, !isLie, "a lie is never run", started.name);
      checkStart(world, home, started, atWork);
    },
  });
  const home: Home = createHome(
    { ...about, runtime, before: agents.get(about.audience)?.home },
    ++world.homes,
  );
  const side = createAgentSide(world, home, server);
  agents.set(about.audience, side);
  return side;
}

/** A setup that runs again finds the place as it is, and gives its agent a new join string. */
function setUp(
  parts: Parts,
  { installId = "", install = "", parameters, artifact }: JobDocument,
): void {
  const joinString = String(parameters["joinString"]);
  const known = parts.agents.get(installId);
  if (known && !known.home.isGone) {
    // As the local sandbox does: one that has joined needs no other identity, unless it is to have one.
    known.home.joinString = joinString;
    if (parameters["rejoin"] === true) joinAnew(known);
    return known.start();
  }
  const about = { kind: "install", name: install, audience: installId, joinString } as const;
  const side = addAgent(parts, about);
  if (artifact) side.home.registry.add(artifactKey(artifact));
  side.start();
}

/** Its agent finds a new join string when it starts, and takes it for what it is. */
function joinAnew(side: AgentSide): void {
  delete side.home.identity;
  delete side.home.joiningKeys;
  side.crash("to join anew");
}

function tearDown({ agents }: Parts, install: string): void {
  const side = agents.get(install);
  if (!side) return;
  side.home.isGone = true;
  side.home.runtime.killAll();
  side.crash("with its sandbox");
}

async function trouble(parts: Parts, troubleMs: number): Promise<void> {
  const { world, operator } = parts;
  const { dice } = world;
  const endsAt = world.time.now + troubleMs;
  const installs = ["acme", "bolt", "coil"].slice(0, 1 + dice.below(dice.chance(0.3) ? 3 : 1));
  const ends = new Set(installs.filter(() => dice.chance(0.4)));
  while (world.time.now < endsAt) {
    for (const name of installs) {
      if (!(await parts.server.read.installs.byName(name))) await operator.create(name);
    }
    await pass(parts, dice.below(1_500));
    await strike(parts);
    if (dice.chance(0.4)) await operator.ask();
    const isLate = world.time.now > endsAt - troubleMs / 3;
    const name = dice.pick([...ends]);
    if (isLate && name !== undefined && dice.chance(0.3)) await operator.destroy(name);
  }
}

async function strike(parts: Parts): Promise<void> {
  const { world, server, agents } = parts;
  const { dice } = world;
  const side = dice.pick([...agents.values()]);
  if (!side) return;
  const { home } = side;
  if (dice.chance(0.05)) side.crash("for no reason");
  if (dice.chance(0.04)) server.crash("for no reason");
  if (dice.chance(0.08)) side.cut();
  if (dice.chance(0.1) && (await server.read.installs.all()).length > 0) server.backUp();
  if (world.strikes("machine-restarts")) {
    // Every other second: which of both it is costs no roll, and leaves the rest of the world as it was.
    const isInOrder = Math.floor(world.time.now / 1_000) % 2 === 0;
    note(world, `the machine of ${home.name} restarts${isInOrder ? " in order" : ""}`);
    if (isInOrder) home.runtime.shutDown();
    else home.runtime.killAll();
    side.crash("with its machine");
  }
  home.isDiskFull = world.strikes("disk-full");
  if (world.strikes("clock-jumps")) home.clockOffsetMs = (dice.below(7) - 3) * 20_000;
}

/** Lets so much time pass. */
export async function pass({ world: { time } }: Pick<Parts, "world">, ms: number): Promise<void> {
  const until = time.now + ms;
  await settle();
  for (let next = time.nextAt; next !== undefined && next <= until; next = time.nextAt) {
    time.passToNext();
    await settle();
  }
  time.pass(Math.max(0, until - time.now));
}

export async function comeToRest(parts: Parts): Promise<void> {
  const { world, agents, operator } = parts;
  world.isTroubled = false;
  note(world, "the trouble ends");
  for (const side of agents.values()) {
    side.home.isDiskFull = false;
    side.home.clockOffsetMs = 0;
    // A connection that lost a frame is no connection any more: what it lost comes with the next.
    side.cut();
  }
  await pass(parts, LOOK_EVERY_MS);
  await operator.cancelRequests();
  const endsAt = world.time.now + REST_MS_MAX;
  let helps = 0;
  for (;;) {
    await pass(parts, LOOK_EVERY_MS);
    const rest = await restOf(parts);
    if (rest.kind === "at-rest") return;
    if (rest.kind === "held") {
      helps++;
      note(world, `held: ${rest.because}`);
      if (helps > HELPS_MAX) return must(world, false, "a hold ends when it says", rest.because);
      for (const hold of rest.installs) await operator.obey(hold);
    }
    if (world.time.now > endsAt) {
      const why = rest.kind === "busy" ? rest.because : "";
      return must(world, false, "without trouble the world comes to rest", why);
    }
  }
}
