// An agent of a simulated world: the production shells over a home that outlives it. It crashes at any
// of its effects and is started again, as a supervisor would.

import { randomUUID } from "node:crypto";
import {
  type AgentRules,
  createJobs,
  createMemorySpool,
  createReleaseGate,
  createVaultedJournal,
  type FindStatement,
  type Journal,
  joinServer,
  makeJoiningKeys,
  type OwnInstall,
  openLink,
  startAgent,
  type TrustFile,
  type Workplace,
} from "@exclave/agent/simulation";
import type { Grant, Timers } from "@exclave/api";
import {
  type ArtifactRef,
  artifactKey,
  asFailure,
  evaluateConfig,
  Failure,
  Instant,
  judgeCancel,
  judgeEnvelope,
  nextTrust,
  openCheckpoint,
} from "@exclave/core";
import { type Home, loseJournal } from "./home.ts";
import { DEBUG_JOBS_MAX, JOBS_MAX } from "./jobs-at-work.ts";
import { type Life, startLife } from "./life.ts";
import { limitCredit } from "./log-credit.ts";
import { createPipe, type SimulatedSocket } from "./network.ts";
import type { ServerSide } from "./server-side.ts";
import { APP, DOCUMENT, isSealed, RELEASES, releaseOfIndex, SIGNER } from "./vendor.ts";
import { createWatchedJournal, watchSaid } from "./watched-journal.ts";
import { note, type World } from "./world.ts";

export interface AgentSide {
  readonly home: Home;
  readonly isUp: boolean;
  start(): void;
  crash(because: string): void;
  /** One end of its connection notices that it is over. */
  cut(): void;
}

const RESTART_MS_MAX = 1_500;
const CLOCK_SKEW_MS = 5 * 60_000;
const FREE_BYTES_MIN = 256 * 1024 * 1024;
const TICK_MS = 2_000;

export function createAgentSide(world: World, home: Home, server: ServerSide): AgentSide {
  const always = world.time.timersFor(() => true);
  const sockets = new Set<SimulatedSocket>();
  let life: Life | undefined;
  const say = (message: string, { reason }: Readonly<Record<string, unknown>> = {}) =>
    note(
      world,
      `${home.name} agent: ${message}${reason === undefined ? "" : ` (${asFailure(reason).message})`}`,
    );
  const log = { debug() {}, info() {}, warn: say, error: say };

  return {
    home,
    get isUp() {
      return life !== undefined;
    },
    start,
    crash: (because) => life?.crash(because),
    cut() {
      for (const socket of sockets) socket.close();
    },
  };

  function start(): void {
    if (life || home.isGone) return;
    if (home.identity && world.strikes("journal-lost")) {
      note(world, `${home.name} agent has lost its journal`);
      loseJournal(home);
    }
    note(world, `${home.name} agent starts`);
    const started = startLife(world, `${home.name} agent`, () => {
      for (const socket of sockets) socket.die();
      sockets.clear();
      if (world.losesRuntimes && world.isTroubled) home.runtime.wipe();
      life = undefined;
      always.after(1 + world.dice.below(RESTART_MS_MAX * world.pace), start);
    });
    life = started;
    run(started).catch((reason: unknown) =>
      started.crash(`because it cannot start: ${String(reason)}`),
    );
  }

  async function run(of: Life): Promise<void> {
    const timers = world.time.timersFor(() => !of.isOver);
    const now = () => world.time.now + home.clockOffsetMs;
    const vault = of.port("vault", home.vault, {
      sync: ["read", "entries", "keep", "drop"],
      quiet: ["read", "entries"],
    });
    const journal = createVaultedJournal({
      journal: of.port("journal", createWatchedJournal(world, home), JOURNAL_PORT),
      vault,
      ...(home.identity && { lostBefore: now() - CLOCK_SKEW_MS }),
      log,
    });
    const identity = home.identity ?? (await join(journal, timers));
    const runtime = of.port("runtime", home.runtime.port, {
      sync: ["output"],
      quiet: ["output", "inspect", "list"],
    });
    const memory = createMemorySpool(home.spooled);
    const spool = sabotaged(world, memory);
    const place = workplace(home, journal);
    const jobs = createJobs({ runtime, spool, journal, place, now, timers, log });
    await startAgent({
      identity,
      version: "0",
      platform: "simulated",
      bootId: randomUUID(),
      rules: rulesOf(world, home),
      trust: TRUST_FILE,
      journal,
      runtime,
      spool,
      jobs,
      freeBytes: async () => (home.isDiskFull ? 0 : FREE_BYTES_MIN * 10),
      freeBytesMin: FREE_BYTES_MIN,
      tickMs: TICK_MS,
      link: (options) =>
        openLink({ ...options, dial: () => dial() as never, elapsedMs: () => world.time.now }),
      now,
      random: () => world.dice.roll(),
      timers,
      log,
    });
  }

  async function join(journal: Journal, timers: Timers) {
    const { kind, joinString } = home;
    home.joiningKeys ??= makeJoiningKeys();
    const { identity } = await joinServer({
      joinString,
      kind,
      keys: home.joiningKeys,
      insecureHttp: true,
      now: world.time.now,
      findCa: () => Promise.reject(new Failure("bug", "there is no TLS in the simulation")),
      post: (_, body) =>
        Promise.race([
          server.join(body),
          timers.sleep(30_000).then(() => {
            throw new Failure("unavailable", "the server does not answer");
          }),
        ]),
    });
    if (!journal.load().fresh) journal.commit([{ kind: "restart", journalId: randomUUID() }]);
    home.identity = identity;
    return identity;
  }

  function dial(): SimulatedSocket {
    const { agentEnd, serverEnd } = createPipe(world, home.name);
    agentEnd.onSay = (data) => watchSaid(world, home, data);
    if (world.sabotage === "kills-pass-for-cancels") agentEnd.alter = withoutKills;
    limitCredit(world, agentEnd, serverEnd);
    sockets.add(agentEnd);
    agentEnd.on("close", () => sockets.delete(agentEnd));
    server.accept(serverEnd, home.audience);
    return agentEnd;
  }
}

const KILLED = /"outcome":\{"kind":"failed","code":"killed",[^}]*\}/;

function withoutKills(data: string | Uint8Array): string | Uint8Array {
  return typeof data === "string" ? data.replace(KILLED, '"outcome":{"kind":"cancelled"}') : data;
}

type MemorySpool = ReturnType<typeof createMemorySpool>;

const JOURNAL_READS = [
  "load",
  "outputs",
  "secret",
  "jobSecrets",
  "statement",
  "statements",
  "releases",
  "close",
];
const JOURNAL_PORT = { sync: ["commit", ...JOURNAL_READS], quiet: JOURNAL_READS };

function sabotaged({ sabotage }: World, spool: MemorySpool): MemorySpool {
  if (sabotage === "log-loses-bytes") return losing(spool);
  return sabotage === "logs-are-rewritten" ? rewriting(spool) : spool;
}

function rewriting(spool: MemorySpool): MemorySpool {
  return {
    ...spool,
    async write(name) {
      const writer = await spool.write(name);
      const append = (bytes: Uint8Array) => writer.append(bytes.map((byte) => byte ^ 1));
      return Object.assign(Object.create(writer) as typeof writer, { append });
    },
  };
}

function losing(spool: MemorySpool): MemorySpool {
  return {
    ...spool,
    async read(name, offset, length) {
      const bytes = await spool.read(name, offset, length);
      return bytes.map((byte, index) => (index === 3 ? byte ^ 1 : byte));
    },
  };
}

/** The trust document does not change here. */
const TRUST_FILE: TrustFile = {
  current: () => DOCUMENT,
  keep: () => undefined,
  role: () => ({ keys: [SIGNER], threshold: 1 }),
};

function rulesOf(world: World, { kind, audience }: Home): AgentRules {
  const verify = (_: unknown, bytes: Uint8Array, signature: Uint8Array) =>
    world.sabotage === "agent-trusts-anyone" || isSealed(bytes, signature);
  const signed = { keys: [SIGNER], threshold: 1, verify };
  const mine = { ...signed, audience, clockSkewMs: CLOCK_SKEW_MS };
  return {
    kind,
    judge: (envelope, { now, lastIssueNo, seenAttempts }) =>
      judgeEnvelope({ envelope, ...mine, now: Instant.parse(now), lastIssueNo, seenAttempts }),
    judgeCancel: ({ envelope, job, attempt }, { now }) =>
      judgeCancel({ envelope, ...mine, job, attempt, now: Instant.parse(now) }),
    nextTrust: (current, envelope, now) =>
      nextTrust({ current, envelope, now: Instant.parse(now), verify }),
    openCheckpoint: (envelope) => openCheckpoint(envelope, signed),
    jobsMax: JOBS_MAX,
    debugJobsMax: world.sabotage === "limits-are-ignored" ? 100 : DEBUG_JOBS_MAX,
    resumesMax: 3,
    publishes: [],
  };
}

function workplace(home: Home, journal: Journal): Workplace {
  const gate = createReleaseGate({
    kind: home.kind,
    ...(home.kind === "install" && { app: APP, pinnedRunner: RELEASES[0]?.row.runner }),
    memory: journal,
    find: findStatement(home, journal),
  });
  const place = { gate, journal, evaluate: evaluateConfig, origins: () => DOCUMENT.origins };
  return home.kind === "setup" ? place : { ...place, own: ownInstall(home) };
}

function ownInstall({ audience, name, registry }: Home): OwnInstall {
  return {
    id: audience,
    name,
    registry: {
      url: "http://registry.test",
      repository: "",
      mountFrom: [],
      token: async () => "token",
      tokenFor: async () => "token",
    },
    sandbox: {},
    holds: async (ref) => registry.has(artifactKey(ref)),
    runner: { pin: async () => undefined, restore: async () => false },
  };
}

function findStatement(home: Home, journal: Journal): FindStatement {
  const find = async (index: ArtifactRef, grant: Grant | undefined) => {
    const found = releaseOfIndex(index.digest);
    const isKept = journal.statement(index.digest) !== undefined;
    const isHere = home.kind === "install" && home.registry.has(artifactKey(index));
    if (found && (isKept || isHere || grant)) {
      return { statement: found.statement, kept: found.kept, isNew: !isKept };
    }
    throw new Failure("not_synced", `release ${index.digest} is not in the install's registry`);
  };
  const kept = () =>
    journal.statements().flatMap(({ index }) => releaseOfIndex(index)?.statement ?? []);
  return Object.assign(find, { kept });
}
