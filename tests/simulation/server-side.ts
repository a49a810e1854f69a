// The server of a simulated world: the production shells (link endpoint, loops, requests) over a store
// and logs in memory that outlive it. It crashes at any of its effects and starts again.

import type { JoinRequest } from "@exclave/api";
import { asFailure, FAILURES, InstallId, type Instant } from "@exclave/core";
import {
  closeLeftLogs,
  createLinkEndpoint,
  createLiveEvents,
  createMemoryJobLogs,
  createMemoryStore,
  createReconcileLoop,
  createRepeats,
  joinAgent,
  type LinkEndpoint,
  type MemoryData,
  type MemoryDisk,
  type MemoryLog,
  newMemoryDisk,
  openCheckpoints,
  reconcileInstall,
  type ServerContext,
  type Store,
} from "@exclave/server/simulation";
import { type Lies, sealOrLie } from "./lies.ts";
import { type Life, startLife } from "./life.ts";
import type { SimulatedSocket } from "./network.ts";
import { REGISTRY_KEY, readApp, simulatedTrust } from "./vendor.ts";
import { createWatchedDisk, type WatchedDisk } from "./watched-disk.ts";
import { seqOf } from "./watched-journal.ts";
import { must, note, type World } from "./world.ts";

export interface ServerSide {
  /** Undefined while it is down. */
  readonly context: ServerContext | undefined;
  /** What is on its disk, whether it is up or not. */
  readonly disk: WatchedDisk;
  readonly files: Map<string, MemoryLog>;
  /** Reads what is committed, beside whatever the server does. */
  readonly read: Store["read"];
  /** Installs whose agent joined after the backup that was restored was made. */
  readonly forgets: ReadonlySet<string>;
  /** Jobs whose manifests it lies about. */
  readonly lies: Lies;
  start(): void;
  crash(because: string): void;
  /** The next start finds the disk as it is now. */
  backUp(): void;
  accept(socket: SimulatedSocket, audience: string): void;
  join(body: JoinRequest): Promise<{ status: number; body: unknown }>;
}

const RESTART_MS_MAX = 1_500;
const PING_MS = 10_000;
const TICK_MS = 2_000;
const LATE_MS = 400;

const SILENT = { info() {}, warn() {}, error() {}, debug() {} } as unknown as ServerContext["log"];

export function createServerSide(world: World): ServerSide {
  const disk = createWatchedDisk(world, newMemoryDisk());
  const files = new Map<string, MemoryLog>();
  const lies: Lies = { told: new Map(), truths: new Map() };
  const shown = { size: 0 };
  const forgets = new Set<string>();
  const always = world.time.timersFor(() => true);
  let backup: MemoryData | undefined;
  let running: Running | undefined;

  return {
    get context() {
      return running?.isReady ? running.context : undefined;
    },
    disk,
    files,
    read: createMemoryStore({ disk }).read,
    lies,
    forgets,
    start,
    crash: (because) => running?.life.crash(because),
    backUp() {
      backup = disk.data;
    },
    accept(socket, audience) {
      if (running?.isReady) running.accept(socket, audience);
      else socket.die();
    },
    async join(body) {
      await always.sleep(1 + world.dice.below(50));
      if (!running?.isReady) return { status: 503, body: {} };
      try {
        return { status: 200, body: await joinAgent(running.context, body) };
      } catch (reason) {
        const { code, message } = asFailure(reason);
        return { status: FAILURES[code].httpStatus, body: { detail: message } };
      }
    },
  };

  function start(): void {
    if (running) return;
    if (backup && world.strikes("backup-restored")) {
      note(world, "the server's backup is restored");
      noteForgotten(disk.data, backup, forgets);
      disk.restore(backup);
      backup = undefined;
    }
    note(world, "server starts");
    running = run(world, { disk, files, lies, shown }, () => {
      running = undefined;
      always.after(1 + world.dice.below(RESTART_MS_MAX * world.pace), start);
    });
  }
}

function noteForgotten(lost: MemoryData, kept: MemoryData, forgets: Set<string>): void {
  const known = kept.nouns.get("agents") ?? new Map<string, never>();
  for (const [key, { body }] of lost.nouns.get("agents") ?? []) {
    if (!known.has(key)) forgets.add((body as { audience: string }).audience);
  }
}

interface Running {
  readonly life: Life;
  readonly context: ServerContext;
  /** It listens. */
  readonly isReady: boolean;
  accept(socket: SimulatedSocket, audience: string): void;
}

interface Kept {
  /** In a file beside the database: no backup brings an older one. */
  readonly shown: { size: number };
  readonly disk: WatchedDisk;
  readonly files: Map<string, MemoryLog>;
  readonly lies: Lies;
}

function run(world: World, kept: Kept, onOver: () => void): Running {
  const { disk } = kept;
  const sockets = new Set<SimulatedSocket>();
  const life = startLife(world, "server", () => {
    for (const socket of sockets) socket.die();
    onOver();
  });
  const timers = world.time.timersFor(() => !life.isOver);
  const now = () => world.time.now as Instant;
  const durable = onDisk(world, disk);
  const memory = createMemoryStore({ disk, beforeCommit, isTrusted: true });
  const store = life.port("store", sabotaged(world, memory));
  const installs = createReconcileLoop({
    reconcile: async (id) => {
      const until = await reconcileInstall(context, InstallId.parse(id));
      if (until !== undefined) installs.markAt(id, until);
    },
    now,
    timers,
    nextTurn: () => Promise.resolve(),
    log: SILENT,
  });
  const link: LinkEndpoint = createLinkEndpoint(() => context, {
    pingMs: PING_MS,
    tickMs: TICK_MS,
    timers,
    nextTurn: () => Promise.resolve(),
    elapsedMs: () => world.time.now,
    random: () => 0.5,
    onPresence: ({ kind, audience }) => {
      if (kind === "install") installs.mark(audience);
      if (kind === "setup") void markAll();
    },
  });
  const trust = simulatedTrust((type, payload) => sealOrLie(world, kept.lies, type, payload));
  const shownSize = life.port(
    "record-shown",
    {
      read: async () => kept.shown.size,
      keep: async (size: number) => void (kept.shown.size = size),
      raise: async (size: number) => void (kept.shown.size = Math.max(kept.shown.size, size)),
    },
    { quiet: ["read"] },
  );
  let isReady = false;
  const checkpoints = openCheckpoints({ store, trust: () => trust, now, shownSize });
  void listen().catch((reason: unknown) =>
    life.crash(`because it cannot start: ${String(reason)}`),
  );
  const context = {
    store,
    checkpoints: {
      latest: async () => (await checkpoints).latest(),
      headsAt: async (sizes: readonly number[]) => (await checkpoints).headsAt(sizes),
      noteSeen: async (agent: string, sizes: readonly number[]) =>
        (await checkpoints).noteSeen(agent, sizes),
      noteShown: (agent: string, size: number) =>
        void checkpoints.then((opened) => opened.noteShown(agent, size)),
    },
    agentCheckpoints: { keep: async () => undefined, ask: async () => undefined },
    keys: { registry: { privateKey: REGISTRY_KEY } },
    trust,
    logs: life.port("logs", createMemoryJobLogs({ files: kept.files }), {
      sync: ["read", "leftOutBytes"],
      quiet: ["read", "leftOutBytes", "sizeBytes", "sha256", "grown"],
    }),
    live: createLiveEvents({ now }),
    // Nobody reads lists here.
    shown: { note() {} },
    metrics: { jobTold() {} },
    traces: { current: () => null, jobTold() {} },
    followers: { enter: () => () => undefined, expect() {}, heard() {}, stop() {} },
    peers: { self: () => "server", servers: () => ["server"], tell() {} },
    repeats: createRepeats({ now }),
    // Whoever is not known here is not answered: an answer would come late, by the machine's clock.
    failedLogins: { fail: () => undefined, answered() {} },
    readApp,
    publicUrl: () => "http://127.0.0.1",
    caFingerprint: () => undefined,
    installsDirectory: "/installs",
    now,
    startedAt: now(),
    version: "0",
    log: SILENT,
    presence: link,
    wake: {
      install: (id: string) => installs.mark(id),
      allInstalls: () => void markAll(),
      releases: () => undefined,
      outbox: (audience: never) => link.look(audience),
      revoked: (audience: never) => link.revoked(audience),
    },
  } as unknown as ServerContext;
  return {
    life,
    context,
    get isReady() {
      return isReady;
    },
    accept,
  };

  function accept(socket: SimulatedSocket, audience: string): void {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.onSay = (data) => watchAcks(world, durable(), audience, data);
    // Before the server hears it: it may commit it at once.
    socket.onHear = (data) => {
      if (typeof data === "string") disk.arrivals.heard(audience, data);
    };
    link.accept(socket as never);
  }

  async function listen(): Promise<void> {
    await checkpoints;
    isReady = true;
    await markAll();
    await closeLeftLogs(context);
  }

  async function markAll(): Promise<void> {
    for (const { id } of await store.read.installs.all()) installs.mark(id);
  }

  function beforeCommit(): Promise<void> | void {
    if (life.isOver) return new Promise<void>(() => undefined);
    if (world.strikes("commit-fails")) {
      note(world, "server cannot commit");
      throw new Error("SQLITE_IOERR: disk I/O error");
    }
  }
}

function sabotaged({ sabotage }: World, store: Store): Store {
  if (sabotage === "refusals-are-unrecorded") return withoutRefusals(store);
  return sabotage === "unknown-looks-unbegun" ? repeatingLost(store) : store;
}

function repeatingLost(store: Store): Store {
  return {
    ...store,
    transaction: (work) =>
      store.transaction((tx) => {
        const put: typeof tx.components.put = (row) => {
          const { lastFailure } = row;
          if (lastFailure?.code !== "lost") return tx.components.put(row);
          const { mayRepeat: _, ...repeated } = lastFailure;
          return tx.components.put({ ...row, lastFailure: repeated });
        };
        return work({ ...tx, components: { ...tx.components, put } });
      }),
  };
}

function withoutRefusals(store: Store): Store {
  return {
    ...store,
    transaction: (work) =>
      store.transaction((tx) => {
        const append: typeof tx.audit.append = async (entry) =>
          entry.action === "job.rejected" ? undefined : tx.audit.append(entry);
        return work({ ...tx, audit: { ...tx.audit, append } });
      }),
  };
}

/** What a crash right now would leave. */
function onDisk(world: World, disk: MemoryDisk): () => MemoryData {
  if (world.sabotage !== "server-acks-before-commit") return () => disk.data;
  let durable = disk.data;
  world.time
    .timersFor(() => true)
    .every(LATE_MS, () => {
      durable = disk.data;
    });
  return () => durable;
}

/** Whatever a server acknowledges must be on its disk. */
function watchAcks(
  world: World,
  { nouns }: MemoryData,
  audience: string,
  data: string | Uint8Array,
): void {
  if (typeof data !== "string" || !data.startsWith('{"type":"ack"')) return;
  const seq = seqOf(data);
  const rows = [...(nouns.get("agents")?.values() ?? [])].map(({ body }) => body);
  const row = rows.find((body) => (body as { audience: string }).audience === audience);
  const { upAcked } = row as { upAcked: number };
  must(world, seq <= upAcked, "an event is acknowledged only when it is committed");
}
