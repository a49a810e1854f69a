// One agent and its server from one seed: what happens next is rolled, faults strike between any two
// effects, then the trouble ends, the world comes to rest, and the promises are looked at.

import { createHash } from "node:crypto";
import { isSettled, type JobName, jobName } from "@exclave/core";
import { type Connection, createConnection, takeFrame } from "./network.ts";
import { createSimulatedAgent, type SimulatedAgent } from "./simulated-agent.ts";
import { createSimulatedRuntime, type SimulatedRuntime } from "./simulated-runtime.ts";
import { createSimulatedServer, type SimulatedServer } from "./simulated-server.ts";
import { createWorld, must, note, type Sabotage, type World } from "./world.ts";

export interface SimulationOptions {
  readonly seed: number;
  readonly sabotage?: Sabotage;
  readonly steps?: number;
}

export interface SimulationReport {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly trace: readonly string[];
  readonly jobs: number;
}

const STEPS = 600;
const REST_ROUNDS_MAX = 400;

export function simulate({
  seed,
  sabotage = "none",
  steps = STEPS,
}: SimulationOptions): SimulationReport {
  const world = createWorld(seed, sabotage);
  const runtime = createSimulatedRuntime(world);
  const agent = createSimulatedAgent(world, runtime);
  const server = createSimulatedServer(world);
  const connections: Connection[] = [];

  for (let step = 0; step < steps; step++) happen({ world, runtime, agent, server, connections });
  world.isTroubled = false;
  const isAtRest = rest({ world, runtime, agent, server, connections });
  must(world, isAtRest, "without trouble the world comes to rest");
  checkPromises({ world, runtime, agent, server, connections });

  const { violations, trace } = world;
  return { seed, violations, trace, jobs: server.jobs.size };
}

interface Parts {
  readonly world: World;
  readonly runtime: SimulatedRuntime;
  readonly agent: SimulatedAgent;
  readonly server: SimulatedServer;
  readonly connections: Connection[];
}

function happen(parts: Parts): void {
  const { world, runtime, agent, server } = parts;
  const { dice } = world;
  world.now += dice.below(50);
  const roll = dice.below(100);
  if (roll < 45) deliver(parts);
  else if (roll < 62) agent.work();
  else if (roll < 74) runtime.live();
  else if (roll < 80) server.wish();
  else if (roll < 87) server.look();
  else if (roll < 92) dial(parts);
  else if (roll < 95) lose(parts);
  else if (roll < 96) agent.crash();
  else if (roll < 99) tick(parts);
  else world.now += dice.below(20_000);
}

function tick({ agent, server }: Parts): void {
  server.tick();
  agent.feed({ kind: "tick" });
}

/** The agent holds at most one connection; the server may still see older ones. */
function dial({ agent, server, connections }: Parts): void {
  agent.wake();
  if (!agent.isUp || connections.some(({ isAgentOpen }) => isAgentOpen)) return;
  const connection = createConnection(connections.length + 1);
  connections.push(connection);
  agent.connect(connection);
  server.accept(connection);
}

function deliver({ world, agent, server, connections }: Parts): void {
  const ways = connections.flatMap((connection) => [
    ...(connection.isAgentOpen && connection.toAgent.length > 0 ? [() => down(connection)] : []),
    ...(connection.isServerOpen && connection.toServer.length > 0 ? [() => up(connection)] : []),
  ]);
  world.dice.pick(ways)?.();

  function down(connection: Connection): void {
    const frame = takeFrame(world, connection.toAgent);
    if (frame) note(world, `→ agent ${describe(frame)}`);
    if (frame) agent.feed({ kind: "frame", frame });
  }

  function up(connection: Connection): void {
    const frame = takeFrame(world, connection.toServer);
    if (frame) note(world, `→ server ${describe(frame)}`);
    if (frame) server.receive(connection, frame);
  }
}

/** One end of a connection notices that it is over; the other may take its time. */
function lose({ world, agent, connections }: Parts): void {
  const open = connections.filter(({ isAgentOpen, isServerOpen }) => isAgentOpen || isServerOpen);
  const connection = world.dice.pick(open);
  if (!connection) return;
  if (world.dice.chance(0.5)) {
    connection.isServerOpen = false;
  } else if (connection.isAgentOpen) {
    connection.isAgentOpen = false;
    agent.feed({ kind: "disconnected" });
  }
}

/** No more faults: one good connection, and everything that was begun goes on to its end. */
function rest(parts: Parts): boolean {
  const { world, runtime, agent, server, connections } = parts;
  for (const connection of connections) {
    if (connection.isAgentOpen) agent.feed({ kind: "disconnected" });
    Object.assign(connection, { isAgentOpen: false, isServerOpen: false });
  }
  dial(parts);
  for (let round = 0; round < REST_ROUNDS_MAX; round++) {
    world.now += 100;
    for (let turn = 0; turn < 40; turn++) {
      deliver(parts);
      agent.work();
    }
    runtime.live();
    server.look();
    if (!connections.some(({ isAgentOpen }) => isAgentOpen)) dial(parts);
    if (round % 10 === 9) agent.feed({ kind: "tick" });
    if (isQuiet(parts)) return true;
  }
  return false;
}

function isQuiet({ agent, server, connections }: Parts): boolean {
  const { state } = agent;
  const isOpen = [...server.jobs.values()].some(({ state }) => !isSettled(state));
  const isWaiting = connections.some(
    ({ isAgentOpen, isServerOpen, toAgent, toServer }) =>
      (isAgentOpen && toAgent.length > 0) || (isServerOpen && toServer.length > 0),
  );
  return !isOpen && !isWaiting && state?.jobs.size === 0 && state.events.length === 0;
}

function checkPromises({ world, runtime, agent, server }: Parts): void {
  const applied = server.applied.map(({ seq, event }) => ({ seq, body: event }));
  const isSame = JSON.stringify(applied) === JSON.stringify(agent.history);
  must(world, isSame, "the server has every journaled event once, in order");

  const of = (type: string) =>
    server.applied.flatMap(({ event }) => (event.type === type ? [event] : []));
  const jobsOf = (type: string) => of(type).flatMap((event) => ("job" in event ? [event.job] : []));
  const ended = new Set(jobsOf("job_ended"));
  for (const job of jobsOf("job_accepted")) {
    must(world, ended.has(job), `every accepted job ends: ${job}`);
  }
  const ends = endsOfAccepted(server);
  for (const [job, count] of ends) must(world, count === 1, `an end is told once: ${job}`);

  for (const id of server.lies) {
    must(world, !runtime.starts.has(jobName(id, 1)), `a lie is never run: ${id}`);
    const isOnRecord = jobsOf("job_rejected").includes(id as never);
    must(world, isOnRecord, `a refusal is on record: ${id}`);
  }
  checkLogs(world, runtime, server);
}

/** Ends that are about a job the agent had; a wish to cancel one it never had is answered too. */
function endsOfAccepted(server: SimulatedServer): Map<string, number> {
  const ends = new Map<string, number>();
  for (const { event } of server.applied) {
    if (event.type !== "job_ended") continue;
    const isAnswer =
      event.outcome.kind === "unknown" && event.outcome.because.includes("has no record");
    if (!isAnswer) ends.set(event.job, (ends.get(event.job) ?? 0) + 1);
  }
  return ends;
}

function checkLogs(world: World, runtime: SimulatedRuntime, server: SimulatedServer): void {
  for (const { event } of server.applied) {
    if (event.type !== "job_ended" || event.logBytes === 0) continue;
    const name: JobName = jobName(event.job, event.attempt);
    const kept = server.logs.get(name) ?? Buffer.alloc(0);
    const said = runtime.said.get(name) ?? Buffer.alloc(0);
    must(world, kept.equals(said), `the log is byte-identical: ${name}`);
    const sha256 = createHash("sha256").update(kept).digest("hex");
    must(world, sha256 === event.logSha256, `the log has the digest it was closed with: ${name}`);
  }
}

function describe(frame: object): string {
  const text = JSON.stringify(frame, (key, value) => (key === "envelope" ? "…" : value));
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
}
