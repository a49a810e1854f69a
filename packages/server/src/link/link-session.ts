// One agent's connection: feeds what comes in to the link machine, one at a time, and carries out
// its effects in the order they are given.

import { randomBytes } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import {
  AgentFrame,
  COMMAND_WINDOW,
  createSystemTimers,
  decodeLogFrame,
  FRAME_BYTES_MAX,
  INBOX_BYTES_MAX,
  INBOX_FRAMES_MAX,
  type ServerCommand,
  type ServerFrame,
  THROTTLED_RETRY_MS,
  type Timers,
  UNREAD_BYTES_MAX,
} from "@exclave/api";
import { asFailure, Failure, isDeeperThan, JSON_DEPTH_MAX, unreachable } from "@exclave/core";
import type { WebSocket } from "ws";
import { noteOnRecord, noteRefusal } from "../access/note-refusal.ts";
import type { ServerContext } from "../context.ts";
import { grantFor } from "../job/grants.ts";
import { joinForJob } from "../job/job-join.ts";
import type { AgentRow } from "../store/rows.ts";
import { writableLog } from "./agent-logs.ts";
import { type AgentQuota, type AgentQuotas, rateOf } from "./agent-quota.ts";
import { createAllowance } from "./allowance.ts";
import { boundedEvent } from "./bounded-event.ts";
import { closeLog } from "./close-log.ts";
import { commitLinkWrite } from "./commit-link-write.ts";
import { gatherHello } from "./hello-facts.ts";
import type {
  GrantWanted,
  Hello,
  JoinWanted,
  LinkEffect,
  LinkInput,
  LinkSettings,
  LinkState,
  OutgoingFrame,
} from "./link-state.ts";
import { advanceLink } from "./server-core.ts";
import { signedCommand } from "./signed-command.ts";

const LOG_CREDIT_BYTES = 1024 * 1024;

export interface LinkSessionOptions {
  readonly context: ServerContext;
  readonly socket: WebSocket;
  /** Where it comes from, as far as that is known. */
  readonly address?: string | undefined;
  readonly settings: Pick<LinkSettings, "pingMs" | "reconnectSpreadMs">;
  readonly quotas: AgentQuotas;
  /** The system's unless given. */
  readonly timers?: Timers;
  onLive(session: LinkSession, agent: AgentRow): void;
  onLooks(session: LinkSession, looks: Looks): void;
  /** With its agent, if it ever was one. */
  onClosed(session: LinkSession, agent: AgentRow | undefined): void;
}

type Looks = Extract<LinkEffect, { kind: "looks" }>["looks"];

export interface LinkSession {
  /** There may be something in the outbox. */
  look(): void;
  /** There is a trust document the agent may not have. */
  trustChanged(): void;
  /** Shows the agent how the record has grown. */
  showRecord(): void;
  /** Asks the agent for the checkpoints it kept. */
  askCheckpoints(): void;
  tick(): void;
  /** Ends the connection without a word. */
  cut(): void;
  goAway(because: string, retryAfterMs: number): void;
}

export function startLinkSession(options: LinkSessionOptions): LinkSession {
  const { context, socket, timers = createSystemTimers() } = options;
  const { log, store } = context;
  const settings: LinkSettings = {
    ...options.settings,
    logCreditBytes: LOG_CREDIT_BYTES,
    frameBytes: FRAME_BYTES_MAX,
  };
  const nonce = randomBytes(24).toString("base64url");
  const inbox: Waiting[] = [];
  let inboxBytes = 0;
  let state: LinkState = { phase: "challenged", nonce };
  let agent: AgentRow | undefined;
  let quota: AgentQuota | undefined;
  const allowance = createAllowance({
    now: context.now,
    isOver: () => state.phase === "closed",
    timers,
  });
  let isBusy = false;
  /** The newest trust document that is on its way to the agent or there. */
  let trustSent: number | undefined;
  /** What the agent says it saw of the record, and later what it was shown last. */
  let recordSeen: readonly number[] | undefined;
  let isRecordSent = false;

  const session: LinkSession = {
    look: () => enqueue({ read: () => waitingCommands(COMMAND_WINDOW) }),
    trustChanged: () =>
      enqueue({
        read: async () => {
          sendTrust();
          return undefined;
        },
      }),
    showRecord: () =>
      enqueue({
        read: async () => {
          await sendCheckpoint();
          return undefined;
        },
      }),
    askCheckpoints: () => {
      if (isRecordSent) send({ type: "checkpoints_want" });
    },
    tick() {
      // An agent that has to wait is not pinged meanwhile: what it said is still to be read.
      if (inbox.length < INBOX_FRAMES_MAX) {
        enqueue({ read: async () => ({ kind: "tick", now: context.now() }) });
      }
    },
    cut: () => socket.terminate(),
    goAway(because, retryAfterMs) {
      send({ type: "goaway", code: "moving", because, retryAfterMs, permanent: false });
      socket.close(1001);
    },
  };

  // Whoever has not said hello by then is not an agent.
  const calmDown = timers.after(settings.pingMs, () => {
    if (state.phase === "challenged") socket.close(1008);
  });
  socket.on("message", (data: Buffer, isBinary: boolean) =>
    enqueue({
      read: () => (isBinary ? logInput(data) : frameInput(data)),
      bytes: data.length,
    }),
  );
  socket.on("error", (error) => log.debug({ error }, "a link's socket failed"));
  socket.on("close", () => {
    calmDown();
    state = { phase: "closed" };
    inbox.length = 0;
    options.onClosed(session, agent);
  });
  enqueue({ read: async () => ({ kind: "opened", nonce }) });
  return session;

  function enqueue(waiting: Waiting): void {
    if (state.phase === "closed") return;
    inbox.push(waiting);
    inboxBytes += waiting.bytes ?? 0;
    if (inbox.length > INBOX_FRAMES_MAX || inboxBytes > INBOX_BYTES_MAX) socket.pause();
    if (!isBusy) void work();
  }

  async function work(): Promise<void> {
    isBusy = true;
    try {
      for (let next = inbox.shift(); next; next = inbox.shift()) {
        inboxBytes -= next.bytes ?? 0;
        if (next.bytes !== undefined) await allowance("frame", quota);
        if (socket.isPaused && inbox.length < INBOX_FRAMES_MAX / 2) socket.resume();
        const input = await next.read();
        const rate = input && rateOf(input);
        if (rate) await allowance(rate, quota);
        if (input) await take(input);
        // The store answers at once: without this, all that an agent has sent would be done before anybody else is heard.
        if (inbox.length > 0) await nextTurn();
      }
    } catch (reason) {
      const { code, message } = asFailure(reason);
      log.warn({ agent: agent?.id, code, reason: message }, "a link is closed");
      const retryAfterMs = code === "rate_limited" ? THROTTLED_RETRY_MS : 1_000;
      if (code === "rate_limited" && agent) {
        const entry = { actor: agent.id, action: "agent.throttled", subject: agent.audience };
        await noteOnRecord(context, { ...entry, details: { because: message } });
      }
      send({ type: "goaway", code, because: message, retryAfterMs, permanent: false });
      state = { phase: "closed" };
      socket.close(1011);
    } finally {
      isBusy = false;
    }
  }

  async function take(input: LinkInput): Promise<void> {
    const next = advanceLink(state, input);
    for (const effect of next.effects) await carryOut(effect);
    if (state.phase !== "closed") state = next.state;
  }

  async function carryOut(effect: LinkEffect): Promise<void> {
    switch (effect.kind) {
      case "send":
        return sendInOrder(effect.frame);
      case "commit":
        return commit(effect);
      case "append_log": {
        const { job, attempt, offset, bytes } = effect;
        await context.logs.append(job, attempt, offset, bytes);
        return closeLog(context, job);
      }
      case "checkpoints":
        if (agent) await context.agentCheckpoints.keep(agent, effect.list);
        return;
      case "looks":
        return options.onLooks(session, effect.looks);
      case "grant":
        return answerGrant(effect.wanted);
      case "join":
        return answerJoin(effect.wanted);
      case "look": {
        const { limit } = effect;
        return enqueue({ read: () => waitingCommands(limit) });
      }
      case "close":
        log.info({ agent: agent?.id, because: effect.because }, "a link is closed");
        return socket.close(1008);
      default:
        return unreachable(effect);
    }
  }

  async function commit({ epoch, write }: Extract<LinkEffect, { kind: "commit" }>): Promise<void> {
    if (!agent) return;
    const { jobs, wake } = await commitLinkWrite(context, agent.id, epoch, write, {
      isHealthOften: () => (quota?.waitMs("health", context.now()) ?? 0) > 0,
    });
    for (const job of jobs) {
      const { id: subject, component, operation, because } = job;
      const install = job.install && { id: job.install, name: job.installName ?? job.install };
      const message = `${operation} is ${job.state.status}: ${job.failure?.message ?? because}`;
      context.live.say({ kind: "job", subject, install, component, message });
      if (job.log) await closeLog(context, job.id);
    }
    if (wake.install !== undefined) context.wake.install(wake.install);
    for (const install of wake.otherInstalls ?? []) context.wake.install(install);
    if (wake.releases) context.wake.releases();
    if (wake.allInstalls) context.wake.allInstalls();
    if (write.kind === "session") options.onLive(session, agent);
  }

  async function answerGrant(wanted: GrantWanted): Promise<void> {
    if (!agent) return;
    const { job, attempt } = wanted;
    send({ type: "grant", job, attempt, ...(await grantFor(context, agent, wanted)) });
  }

  async function answerJoin({ job, attempt }: JoinWanted): Promise<void> {
    if (!agent) return;
    send({ type: "join", job, attempt, ...(await joinForJob(context, agent, { job, attempt })) });
  }

  async function frameInput(data: Buffer): Promise<LinkInput | undefined> {
    const frame = parseFrame(data);
    if (!frame) {
      const because = "that is not a frame of this protocol";
      send({ type: "goaway", code: "protocol", because, retryAfterMs: 5_000, permanent: false });
      socket.close(1008);
      return undefined;
    }
    const now = context.now();
    if (frame.type === "event") {
      return { kind: "frame", frame: { ...frame, body: boundedEvent(frame.body) }, now };
    }
    if (frame.type !== "hello") return { kind: "frame", frame, now };
    return helloInput(frame, now);
  }

  async function helloInput(frame: Hello, now: number): Promise<LinkInput | undefined> {
    const { quotas } = options;
    const { facts, proven } = await gatherHello(context, frame, { nonce, settings, quotas });
    if (!proven && !(await isWorthAnswering(frame))) {
      socket.terminate();
      return undefined;
    }
    agent = proven?.agent;
    if (proven) {
      trustSent = frame.trustVersion;
      recordSeen = frame.checkpointSizes;
    }
    quota = proven?.quota;
    return { kind: "hello", frame, facts, now };
  }

  /** Whoever is not the agent they say has failed to log in: on record, answered late, or not at all. */
  async function isWorthAnswering(frame: Hello): Promise<boolean> {
    const because = "no agent with that id and key has joined here";
    const answer = await noteRefusal(context, {
      failure: new Failure("unauthenticated", because),
      actor: "nobody",
      secret: frame.agent,
      address: options.address ?? "unknown",
      asked: "hello of an agent",
      isUpload: false,
    });
    return answer.code !== "rate_limited";
  }

  async function logInput(data: Buffer): Promise<LinkInput | undefined> {
    const frame = decodeLogFrame(data);
    if (!frame) return undefined;
    const log = await writableLog(context, agent, frame);
    const isUnwanted = log === undefined && !(await store.read.jobs.get(frame.job));
    return { kind: "log", frame, ...log, isUnwanted, now: context.now() };
  }

  async function waitingCommands(limit: number): Promise<LinkInput | undefined> {
    if (!agent || state.phase !== "live") return undefined;
    const rows = await store.read.outbox.waiting(agent.audience, limit);
    return { kind: "waiting", rows: rows.map(({ id, body }) => ({ row: id, body })) };
  }

  /** A command is signed on its way out, and comes after the trust document that names its signer. */
  async function sendInOrder(frame: OutgoingFrame): Promise<void> {
    if (frame.type !== "command") {
      send(frame);
      if (frame.type !== "welcome") return;
      sendTrust();
      // After the document that names its signer, before the first command.
      await sendCheckpoint();
      return;
    }
    if (!agent) return;
    let signedUnder: number;
    let body: ServerCommand;
    do {
      signedUnder = context.trust.current().document.version;
      body = await signedCommand(context, agent.audience, frame.body);
      // Replaced while it was being signed: the key may be out already.
    } while (signedUnder !== context.trust.current().document.version);
    sendTrust();
    send({ ...frame, body });
  }

  /** Every version the agent does not have, in order. One that says of none it has is too old for them. */
  function sendTrust(): void {
    if (trustSent === undefined) return;
    for (const { document, envelope } of context.trust.after(trustSent)) {
      send({ type: "trust", envelope });
      trustSent = document.version;
    }
  }

  async function sendCheckpoint(): Promise<void> {
    if (!recordSeen || !agent) return;
    const { checkpoints } = context;
    await checkpoints.noteSeen(agent.id, recordSeen);
    const { checkpoint, envelope } = await checkpoints.latest();
    if (recordSeen.length === 1 && recordSeen[0] === checkpoint.size && isRecordSent) return;
    const heads = await checkpoints.headsAt(recordSeen);
    sendTrust();
    send({ type: "checkpoint", envelope, heads });
    checkpoints.noteShown(agent.id, checkpoint.size);
    recordSeen = [checkpoint.size];
    if (!isRecordSent) send({ type: "checkpoints_want" });
    isRecordSent = true;
  }

  function send(frame: ServerFrame): void {
    if (socket.readyState !== socket.OPEN) return;
    socket.send(JSON.stringify(frame));
    if (socket.bufferedAmount <= UNREAD_BYTES_MAX) return;
    log.warn({ agent: agent?.id, bytes: socket.bufferedAmount }, "an agent does not read");
    state = { phase: "closed" };
    socket.terminate();
  }
}

interface Waiting {
  readonly read: () => Promise<LinkInput | undefined>;
  /** Set for what came from the agent. */
  readonly bytes?: number;
}

function parseFrame(data: Buffer): AgentFrame | undefined {
  try {
    const value: unknown = JSON.parse(data.toString("utf8"));
    return isDeeperThan(value, JSON_DEPTH_MAX) ? undefined : AgentFrame.safeParse(value).data;
  } catch {
    return undefined;
  }
}
