// The real agent core with a shell whose world is simulated. A crash takes everything but the
// journal, the spool and the runtime's jobs.

import { createHash } from "node:crypto";
import {
  type AgentEffect,
  type AgentHappening,
  type AgentRules,
  type AgentState,
  advanceAgent,
  createMemoryJournal,
  type JobRecord,
  type JournaledEvent,
  type JournalWrite,
  restoreState,
} from "@exclave/agent";
import {
  InstallId,
  Instant,
  type JobName,
  judgeCancel,
  judgeEnvelope,
  type TrustDocument,
  unreachable,
} from "@exclave/core";
import type { Connection } from "./network.ts";
import { isSignedForSimulation } from "./simulated-manifest.ts";
import type { SimulatedRuntime } from "./simulated-runtime.ts";
import { Crash, mayCrash, must, note, type World } from "./world.ts";

export const AUDIENCE = InstallId.parse("iacmeaaaaaaaaaaaa");

export interface SimulatedAgent {
  /** Starts it if it is down: reads the journal, looks at the runtime. */
  wake(): void;
  feed(input: AgentHappening): void;
  /** Lets one of the things it does beside its loop go on. */
  work(): void;
  connect(connection: Connection): void;
  crash(): void;
  readonly isUp: boolean;
  readonly isIdle: boolean;
  readonly state: AgentState | undefined;
  /** Every event that was ever journaled. */
  readonly history: readonly JournaledEvent[];
}

type Task = () => void;

/** Judged by without being read: signatures cost nothing here. */
const ROLE = { keyids: ["director"], threshold: 1 };
const TRUST: TrustDocument = {
  version: 1,
  expiresAt: Instant.parse(Number.MAX_SAFE_INTEGER),
  keys: { director: { spki: "simulated", scheme: "ed25519" } },
  roles: { root: ROLE, release: ROLE, director: ROLE, checkpoint: ROLE },
  origins: ["http://vendor.test"],
};

export function createSimulatedAgent(world: World, runtime: SimulatedRuntime): SimulatedAgent {
  const journal = createMemoryJournal({ journalId: "journal" });
  const spool = new Map<JobName, Buffer>();
  const flushed = new Set<JobName>();
  const history: JournaledEvent[] = [];
  /** What a crash right now would leave of both sequences. */
  const durable = { downAcked: 0, upHead: 0 };
  const rules: AgentRules = {
    kind: "install",
    judge: (envelope, facts) =>
      judgeEnvelope({
        envelope,
        keys: [{ keyid: "director", spki: "simulated", scheme: "ed25519" }],
        threshold: 1,
        verify: (_, bytes, signature) =>
          world.sabotage === "agent-trusts-anyone" || isSignedForSimulation(bytes, signature),
        audience: AUDIENCE,
        clockSkewMs: 0,
        ...facts,
        now: facts.now as never,
      }),
    judgeCancel: ({ envelope, job, attempt }, { now }) =>
      judgeCancel({
        envelope,
        keys: [{ keyid: "director", spki: "simulated", scheme: "ed25519" }],
        threshold: 1,
        verify: (_, bytes, signature) => isSignedForSimulation(bytes, signature),
        audience: AUDIENCE,
        job,
        attempt,
        now: now as never,
        clockSkewMs: 0,
      }),
    nextTrust: () => ({ kind: "refused", code: "invalid", because: "there is one here" }),
    openCheckpoint: () => ({ because: "there are none here" }),
    jobsMax: 3,
    debugJobsMax: 2,
    resumesMax: 3,
    publishes: [],
  };
  let state: AgentState | undefined;
  let connection: Connection | undefined;
  let tasks: Task[] = [];

  return {
    wake() {
      if (state) return;
      const snapshot = journal.load();
      state = restoreState(snapshot, TRUST);
      note(world, "agent starts");
      feed({ kind: "restored", found: runtime.list(), fresh: snapshot.fresh });
    },
    feed,
    work() {
      const task = world.dice.pick(tasks);
      if (!task) return;
      tasks = tasks.filter((other) => other !== task);
      guard(task);
    },
    connect(next) {
      connection = next;
    },
    crash,
    get isUp() {
      return state !== undefined;
    },
    get isIdle() {
      return tasks.length === 0;
    },
    get state() {
      return state;
    },
    history,
  };

  function guard(work: () => void): void {
    try {
      work();
    } catch (reason) {
      if (!(reason instanceof Crash)) throw reason;
      crash();
    }
  }

  function crash(): void {
    note(world, "agent crashes");
    state = undefined;
    tasks = [];
    if (connection) connection.isAgentOpen = false;
    connection = undefined;
    // What was spooled and not yet flushed may be gone.
    for (const [name, bytes] of spool) {
      if (flushed.has(name) || world.dice.chance(0.7)) continue;
      spool.set(name, bytes.subarray(0, world.dice.below(bytes.length + 1)));
    }
  }

  function feed(input: AgentHappening): void {
    guard(() => step(input));
  }

  function step(input: AgentHappening): void {
    if (!state) return;
    const next = advanceAgent(state, { ...input, now: world.now }, rules);
    const acts = next.effects.filter(({ kind }) => kind !== "journal");
    if (world.sabotage === "agent-acts-before-commit") {
      state = next.state;
      for (const effect of acts) perform(effect);
    }
    mayCrash(world);
    commit(next.effects);
    if (world.sabotage === "agent-acts-before-commit") return;
    state = next.state;
    for (const effect of acts) {
      mayCrash(world);
      perform(effect);
    }
  }

  function commit(effects: readonly AgentEffect[]): void {
    const writes = effects.flatMap((effect) => (effect.kind === "journal" ? effect.writes : []));
    journal.commit(writes.filter((write) => !isForgotten(write)));
    for (const write of writes) {
      if (write.kind === "down_acked") durable.downAcked = write.seq;
      if (write.kind !== "event") continue;
      durable.upHead = write.seq;
      history.push({ seq: write.seq, body: write.body });
    }
  }

  function isForgotten(write: JournalWrite): boolean {
    if (world.sabotage !== "launches-are-forgotten" || write.kind !== "job") return false;
    return write.record.status === "launching" || write.record.status === "running";
  }

  function perform(effect: AgentEffect): void {
    switch (effect.kind) {
      case "journal":
      case "keep_trust":
      case "note":
        return;
      case "send":
        return send(effect);
      case "hello":
        connection?.toServer.push({
          type: "hello",
          protos: [1],
          agent: "aaaaaaaaaaaaaaaaa" as never,
          version: "0",
          platform: "simulated",
          runtime: "simulated",
          capabilities: [],
          keyGeneration: 1,
          bootId: "boot",
          clockMs: world.now,
          proof: "",
          ...effect.facts,
        });
        return;
      case "send_log":
        return sendLog(effect);
      case "inspect":
        return later(() =>
          feed({ kind: "inspected", name: effect.name, run: runtime.inspect(effect.name) }),
        );
      case "launch":
        return later(() => launch(effect.record));
      case "follow":
        return later(() => follow(effect.record, 0));
      case "stop":
        return later(() => runtime.stop(effect.name));
      case "remove":
        return later(() => runtime.remove(effect.name));
      case "drop_spool":
        return later(() => void spool.delete(effect.name));
      case "status":
        return later(() => lookUp(effect));
      case "publish":
        return;
      case "close":
        if (connection) connection.isAgentOpen = false;
        connection = undefined;
        return later(() => feed({ kind: "disconnected" }));
      default:
        return unreachable(effect);
    }
  }

  function send({ frame }: Extract<AgentEffect, { kind: "send" }>): void {
    const { downAcked, upHead } = durable;
    if (frame.type === "ack") {
      must(world, frame.seq <= downAcked, "a command is acknowledged only when it is journaled");
    }
    if (frame.type === "event") {
      must(world, frame.seq <= upHead, "an event is said only when it is journaled");
    }
    if (connection?.isAgentOpen) connection.toServer.push(frame);
  }

  function sendLog({ name, offset, bytes }: Extract<AgentEffect, { kind: "send_log" }>): void {
    const manifest = state?.jobs.get(name)?.record.manifest;
    const chunk = (spool.get(name) ?? Buffer.alloc(0)).subarray(offset, offset + bytes);
    if (!manifest || !connection?.isAgentOpen || chunk.length === 0) return;
    const { id: job, attempt } = manifest;
    connection.toServer.push({ type: "log", log: { job, attempt, offset, bytes: chunk } });
  }

  function launch(record: JobRecord): void {
    const { name } = record;
    if (world.dice.chance(0.1)) {
      const logSha256 = createHash("sha256").digest("hex");
      const why = {
        code: "not_synced",
        message: "it is not here",
        logBytes: 0,
        logSha256,
      } as const;
      return feed({ kind: "not_launched", name, why });
    }
    const journaled = journal.load().jobs.find((job) => job.name === name);
    const isIntended = journaled?.status === "launching" && journaled.launches === record.launches;
    must(world, isIntended, "the intent to launch is journaled before the launch");
    mayCrash(world);
    runtime.start(name);
    mayCrash(world);
    later(() => feed({ kind: "launched", name }));
  }

  /** From the first byte, over what an earlier life may have spooled. */
  function follow(record: JobRecord, read: number): void {
    const { name } = record;
    const output = runtime.output(name);
    const position = Math.min(output.length, read + 1 + world.dice.below(64));
    const kept = spool.get(name) ?? Buffer.alloc(0);
    if (position > kept.length) spool.set(name, output.subarray(0, position));
    if (position > read) feed({ kind: "spooled", name, bytes: position });
    const run = runtime.inspect(name);
    if (run.kind !== "exited" || position < output.length) {
      return later(() => follow(record, position));
    }
    const isStopped = run.exit.kind === "signal";
    flushed.add(name);
    later(() =>
      feed({
        kind: "exited",
        name,
        ended: {
          outcome: isStopped ? { kind: "cancelled" } : { kind: "succeeded" },
          outputs: [],
          artifacts: [],
          logBytes: output.length,
          logSha256: createHash("sha256").update(output).digest("hex"),
        },
      }),
    );
  }

  function lookUp({ name, entry }: Extract<AgentEffect, { kind: "status" }>): void {
    runtime.start(name);
    const { component } = entry;
    const health = world.dice.pick(["healthy", "degraded"] as const) ?? "healthy";
    later(() => {
      runtime.remove(name);
      feed({ kind: "status_seen", component, name, seen: { health, because: "looked" } });
    });
  }

  function later(task: Task): void {
    if (state) tasks.push(task);
  }
}
