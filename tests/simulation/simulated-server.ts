// The real link machine and event rules of the server, over a store that keeps what was committed
// when the server dies. It also makes trouble: wishes for cancellation, and lies.

import type { AgentEvent, ServerCommand, ServerFrame } from "@exclave/api";
import {
  advanceJob,
  digestOf,
  type Envelope,
  InstallId,
  type JobName,
  jobName,
  unreachable,
} from "@exclave/core";
import {
  type AgentEventWrites,
  advanceLink,
  applyAgentEvent,
  type LinkEffect,
  type LinkInput,
  type LinkRecord,
  type LinkState,
  type LinkWrite,
} from "@exclave/server";
import type { Connection, ToServer } from "./network.ts";
import { AUDIENCE } from "./simulated-agent.ts";
import { makeManifest, signCancel, signManifest } from "./simulated-manifest.ts";
import { Crash, mayCrash, must, note, type World } from "./world.ts";

const ANOTHER = InstallId.parse("ianotheraaaaaaaaa");

type JobRow = AgentEventWrites["jobs"][number];

export interface SimulatedServer {
  accept(connection: Connection): void;
  receive(connection: Connection, frame: ToServer): void;
  /** Offers a job, cancels one, or lies. */
  wish(): void;
  look(): void;
  tick(): void;
  readonly jobs: ReadonlyMap<string, JobRow>;
  readonly logs: ReadonlyMap<JobName, Buffer>;
  readonly applied: readonly { readonly seq: number; readonly event: AgentEvent }[];
  /** Job ids of offers that no honest server would make. */
  readonly lies: ReadonlySet<string>;
}

interface OutboxRow {
  readonly row: number;
  seq: number | undefined;
  readonly body: ServerCommand;
}

interface Session {
  readonly connection: Connection;
  state: LinkState;
}

const SETTINGS = { pingMs: 10_000, reconnectSpreadMs: 0, logCreditBytes: 96, frameBytes: 64 };
const COMPONENTS = ["api", "database", "web"];
const OPERATIONS = ["apply", "apply", "destroy", "sync", "exec"] as const;

export function createSimulatedServer(world: World): SimulatedServer {
  const { dice } = world;
  let link: LinkRecord = {
    agent: "aaaaaaaaaaaaaaaaa",
    isRevoked: false,
    keyGeneration: 1,
    journalId: null,
    sessionEpoch: 0,
    upAcked: 0,
    downHead: 0,
    downAcked: 0,
  };
  let outbox: OutboxRow[] = [];
  let rows = 0;
  let issueNo = 0;
  const jobs = new Map<string, JobRow>();
  const envelopes: { readonly id: string; readonly envelope: Envelope }[] = [];
  const logs = new Map<JobName, Buffer>();
  const applied: { seq: number; event: AgentEvent }[] = [];
  const lies = new Set<string>();
  let sessions: Session[] = [];
  const pending: (() => void)[] = [];

  return { accept, receive, wish, look, tick, jobs, logs, applied, lies };

  function accept(connection: Connection): void {
    const session: Session = { connection, state: { phase: "challenged", nonce: "n" } };
    sessions.push(session);
    take(session, { kind: "opened", nonce: `n${connection.id}` });
  }

  function receive(connection: Connection, frame: ToServer): void {
    const session = sessions.find((open) => open.connection === connection);
    if (!session) return;
    if (frame.type === "hello") {
      const unacked = outbox.flatMap(({ row, seq, body }) => (seq ? [{ row, seq, body }] : []));
      const known = frame.jobs.map(({ job, attempt }) => ({
        job,
        attempt,
        upTo: logs.get(jobName(job, attempt))?.length ?? 0,
      }));
      const facts = { record: link, isProven: true, unacked, logs: known, settings: SETTINGS };
      return take(session, { kind: "hello", frame, facts, now: world.now });
    }
    if (frame.type === "log") {
      const { log } = frame;
      const durable = logs.get(jobName(log.job, log.attempt))?.length ?? 0;
      return take(session, { kind: "log", frame: log, durable, now: world.now });
    }
    take(session, { kind: "frame", frame, now: world.now });
  }

  function take(session: Session, input: LinkInput): void {
    try {
      const step = advanceLink(session.state, input);
      const effects =
        world.sabotage === "server-acks-before-commit" ? acksFirst(step.effects) : step.effects;
      for (const effect of effects) {
        mayCrash(world);
        if (!carryOut(session, effect)) return end(session);
      }
      session.state = step.state;
      if (step.state.phase === "closed") end(session);
    } catch (reason) {
      if (!(reason instanceof Crash)) throw reason;
      note(world, "server crashes");
      for (const open of sessions) end(open);
    }
  }

  function acksFirst(effects: readonly LinkEffect[]): LinkEffect[] {
    const isAck = (effect: LinkEffect) => effect.kind === "send" && effect.frame.type === "ack";
    return [...effects.filter(isAck), ...effects.filter((effect) => !isAck(effect))];
  }

  function end(session: Session): void {
    session.connection.isServerOpen = false;
    sessions = sessions.filter((other) => other !== session);
  }

  function carryOut(session: Session, effect: LinkEffect): boolean {
    switch (effect.kind) {
      case "send":
        // Everything in this outbox is signed already.
        send(session, effect.frame as ServerFrame);
        return true;
      case "commit":
        return commit(effect.epoch, effect.write);
      case "append_log": {
        const name = jobName(effect.job, effect.attempt);
        const before = logs.get(name) ?? Buffer.alloc(0);
        must(world, before.length === effect.offset, "a log grows at its end");
        logs.set(name, Buffer.concat([before, effect.bytes]));
        return true;
      }
      case "join":
        // No setup agent here: nobody asks.
        return true;
      case "grant":
        send(session, grantFrame(effect.wanted));
        return true;
      case "look": {
        const waiting = outbox.filter(({ seq }) => seq === undefined).slice(0, effect.limit);
        comeBack(session, waiting);
        return true;
      }
      case "looks":
      case "checkpoints":
        return true;
      case "close":
        return false;
      default:
        return unreachable(effect);
    }
  }

  /** Looked up now, taken in after this turn: as a program would. */
  function comeBack(session: Session, waiting: readonly OutboxRow[]): void {
    const found = waiting.map(({ row, body }) => ({ row, body }));
    pending.push(() => {
      if (sessions.includes(session)) take(session, { kind: "waiting", rows: found });
    });
  }

  function send({ connection }: Session, frame: ServerFrame): void {
    if (frame.type === "ack") {
      must(world, frame.seq <= link.upAcked, "an event is acknowledged only when it is committed");
    }
    if (connection.isServerOpen) connection.toAgent.push(frame);
  }

  function commit(epoch: number, write: LinkWrite): boolean {
    const fence = write.kind === "session" ? epoch - 1 : epoch;
    if (link.sessionEpoch !== fence) return false;
    switch (write.kind) {
      case "session": {
        const { journalId, upAcked, downHead, downAcked } = write;
        must(world, write.reset === undefined, "a journal that was kept is never reset");
        link = { ...link, sessionEpoch: epoch, journalId, upAcked, downHead, downAcked };
        outbox = outbox.filter(({ seq }) => seq === undefined || seq > downAcked);
        return true;
      }
      case "offer":
        link = { ...link, downHead: write.downHead };
        for (const { row, seq, body } of write.commands) {
          const entry = outbox.find((other) => other.row === row);
          if (entry) entry.seq = seq;
          if (body.type === "job_offer") move(body.job, { type: "offer", at: world.now as never });
        }
        return true;
      case "acked":
        link = { ...link, downAcked: Math.max(link.downAcked, write.seq) };
        outbox = outbox.filter(({ seq }) => seq === undefined || seq > write.seq);
        return true;
      case "event":
        link = { ...link, upAcked: write.seq };
        applied.push({ seq: write.seq, event: write.event });
        applyEvent(write.event);
        return true;
      default:
        return unreachable(write);
    }
  }

  function applyEvent(event: AgentEvent): void {
    const job = "job" in event ? jobs.get(event.job) : undefined;
    const facts = { event, agent: link.agent, audience: AUDIENCE, now: world.now as never, job };
    for (const row of applyAgentEvent(facts).jobs) jobs.set(row.id, row);
  }

  function move(id: string, event: Parameters<typeof advanceJob>[1]): void {
    const job = jobs.get(id);
    const state = job && advanceJob(job.state, event);
    if (job && state) jobs.set(id, { ...job, state });
  }

  function grantFrame({ job, attempt }: { job: string; attempt: number }): ServerFrame {
    const grant = { registryUrl: "http://vendor.test", token: "t", expiresAt: world.now + 600_000 };
    return dice.chance(0.9)
      ? { type: "grant", job: job as never, attempt, grant }
      : { type: "grant", job: job as never, attempt, refused: "not now" };
  }

  function wish(): void {
    const roll = dice.roll();
    if (roll < 0.6) offer();
    else if (roll < 0.8) cancel();
    else lie();
  }

  function offer(): void {
    const id = newId();
    const operation = dice.pick(OPERATIONS) ?? "apply";
    const component = operation === "sync" ? undefined : dice.pick(COMPONENTS);
    const wishes = { id, operation, component, now: world.now, validMs: 86_400_000 };
    const manifest = makeManifest({ ...wishes, audience: AUDIENCE, issueNo: ++issueNo });
    const envelope = signManifest(manifest, false);
    envelopes.push({ id, envelope });
    jobs.set(id, newJob(id));
    post({ type: "job_offer", job: id as never, attempt: 1, envelope });
  }

  function cancel(): void {
    const open = [...jobs.values()].filter(({ state }) =>
      ["queued", "offered", "accepted", "running"].includes(state.status),
    );
    const job = dice.pick(open);
    if (!job) return;
    const { id, state } = job;
    // Somebody else's: while its offer is on the way, a real cancel would take that back.
    const isForged = state.status === "running" && dice.below(4) === 0;
    const envelope = signCancel({ job: id, audience: AUDIENCE, now: world.now }, isForged);
    post({ type: "job_cancel", job: id, attempt: 1, envelope });
  }

  /** Forged, for another install, out of date, or an old one under a new name or its own. */
  function lie(): void {
    const id = newId();
    const kind = dice.below(4);
    const old = dice.pick(envelopes);
    const wishes = { id, operation: "apply", component: "api", now: world.now } as const;
    const audience = kind === 1 ? ANOTHER : AUDIENCE;
    const validMs = kind === 2 ? -1_000 : 86_400_000;
    const manifest = makeManifest({ ...wishes, audience, validMs, issueNo: issueNo + 1_000 });
    const envelope =
      kind === 3 && old ? old.envelope : signManifest(manifest, kind !== 1 && kind !== 2);
    lies.add(id);
    post({ type: "job_offer", job: id as never, attempt: 1, envelope });
    if (kind === 3 && old) {
      post({ type: "job_offer", job: old.id as never, attempt: 1, envelope: old.envelope });
    }
  }

  function post(body: ServerCommand): void {
    outbox.push({ row: ++rows, seq: undefined, body });
  }

  function newId(): string {
    const letters = "abcdefghijklmnopqrstuvwxyz234567";
    return `j${Array.from({ length: 16 }, () => letters[dice.below(32)]).join("")}`;
  }

  function newJob(id: string): JobRow {
    return {
      id: id as never,
      attempt: 1,
      audience: AUDIENCE,
      install: null,
      installName: null,
      app: null,
      component: null,
      release: null,
      operation: "apply",
      effect: "idempotent",
      state: { status: "queued", since: world.now as never },
      purpose: { kind: "request" },
      because: "",
      requestedBy: "",
      createdAt: world.now as never,
      startedAt: null,
      endedAt: null,
      failure: null,
      exitCode: null,
      report: null,
      plan: null,
      log: null,
      logComplete: false,
      manifestDigest: digestOf(id),
      joinGivenAt: null,
      reads: [],
      writes: [],
    };
  }

  function look(): void {
    for (const work of pending.splice(0)) work();
    for (const session of sessions) {
      const waiting = outbox.filter(({ seq }) => seq === undefined);
      const found = waiting.slice(0, 32).map(({ row, body }) => ({ row, body }));
      if (session.state.phase === "live") take(session, { kind: "waiting", rows: found });
    }
  }

  function tick(): void {
    for (const session of sessions) take(session, { kind: "tick", now: world.now });
  }
}
