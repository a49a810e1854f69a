// One agent's connection: feeds what comes in to the link machine, one at a time, and carries out
// its effects in the order they are given.

import { randomBytes } from "node:crypto";
import {
  AgentFrame,
  decodeLogFrame,
  FRAME_BYTES_MAX,
  helloBytes,
  type LogFrame,
  type ServerFrame,
} from "@exclave/api";
import { asFailure, unreachable } from "@exclave/core";
import type { WebSocket } from "ws";
import type { ServerContext } from "../context.ts";
import { grantFor } from "../grants.ts";
import { isSignedBy } from "../joins.ts";
import type { AgentRow } from "../store/rows.ts";
import { closeLog } from "./close-log.ts";
import { commitLinkWrite } from "./commit-link-write.ts";
import {
  type GrantWanted,
  type HelloFacts,
  type LinkEffect,
  type LinkInput,
  type LinkSettings,
  type LinkState,
} from "./link-state.ts";
import { stepLink } from "./server-core.ts";

const LOG_CREDIT_BYTES = 1024 * 1024;
/** More than this waiting to be handled, and the socket is not read until it is less. */
const INBOX_MAX = 64;

export interface LinkSessionOptions {
  readonly context: ServerContext;
  readonly socket: WebSocket;
  readonly settings: Pick<LinkSettings, "pingMs" | "reconnectSpreadMs">;
  onLive(session: LinkSession, agent: AgentRow): void;
  onClosed(session: LinkSession): void;
}

export interface LinkSession {
  /** There may be something in the outbox. */
  look(): void;
  tick(): void;
  goAway(because: string, retryAfterMs: number): void;
}

export function startLinkSession(options: LinkSessionOptions): LinkSession {
  const { context, socket } = options;
  const { log, store } = context;
  const settings: LinkSettings = {
    ...options.settings,
    logCreditBytes: LOG_CREDIT_BYTES,
    frameBytes: FRAME_BYTES_MAX,
  };
  const nonce = randomBytes(24).toString("base64url");
  const inbox: (() => Promise<LinkInput | undefined>)[] = [];
  const jobsOfAgent = new Map<string, boolean>();
  let state: LinkState = { phase: "challenged", nonce };
  let agent: AgentRow | undefined;
  let isBusy = false;

  const session: LinkSession = {
    look: () => enqueue(() => waitingCommands(32)),
    tick: () => enqueue(async () => ({ kind: "tick", now: context.now() })),
    goAway(because, retryAfterMs) {
      send({ type: "goaway", code: "moving", because, retryAfterMs, permanent: false });
      socket.close(1001);
    },
  };

  // Whoever has not said hello by then is not an agent.
  const impatience = setTimeout(() => {
    if (state.phase === "challenged") socket.close(1008);
  }, settings.pingMs);
  socket.on("message", (data: Buffer, isBinary: boolean) =>
    enqueue(() => (isBinary ? logInput(data) : frameInput(data))),
  );
  socket.on("error", (error) => log.debug({ error }, "a link's socket failed"));
  socket.on("close", () => {
    clearTimeout(impatience);
    state = { phase: "closed" };
    inbox.length = 0;
    options.onClosed(session);
  });
  enqueue(async () => ({ kind: "opened", nonce }));
  return session;

  function enqueue(read: () => Promise<LinkInput | undefined>): void {
    if (state.phase === "closed") return;
    inbox.push(read);
    if (inbox.length > INBOX_MAX) socket.pause();
    if (!isBusy) void work();
  }

  async function work(): Promise<void> {
    isBusy = true;
    try {
      for (let read = inbox.shift(); read; read = inbox.shift()) {
        if (socket.isPaused && inbox.length < INBOX_MAX / 2) socket.resume();
        const input = await read();
        if (input) await take(input);
      }
    } catch (reason) {
      const { code, message } = asFailure(reason);
      log.warn({ agent: agent?.id, code, reason: message }, "a link is closed");
      send({ type: "goaway", code, because: message, retryAfterMs: 1_000, permanent: false });
      state = { phase: "closed" };
      socket.close(1011);
    } finally {
      isBusy = false;
    }
  }

  async function take(input: LinkInput): Promise<void> {
    const turn = stepLink(state, input);
    for (const effect of turn.effects) await carryOut(effect);
    if (state.phase !== "closed") state = turn.state;
  }

  async function carryOut(effect: LinkEffect): Promise<void> {
    switch (effect.kind) {
      case "send":
        return send(effect.frame);
      case "commit":
        return commit(effect);
      case "append_log": {
        const { job, attempt, offset, bytes } = effect;
        await context.logs.append(job, attempt, offset, bytes);
        return closeLog(context, job);
      }
      case "grant":
        return answerGrant(effect.wanted);
      case "look": {
        const { limit } = effect;
        return enqueue(() => waitingCommands(limit));
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
    const { jobs, wake } = await commitLinkWrite(context, agent.id, epoch, write);
    for (const job of jobs) {
      const { id: subject, install, component, operation, because } = job;
      const message = `${operation} is ${job.state.status}: ${job.failure?.message ?? because}`;
      context.live.say({ kind: "job", subject, install, component, message });
      if (job.log) await closeLog(context, job.id);
    }
    if (wake.install !== undefined) context.wake.install(wake.install);
    if (wake.releases) context.wake.releases();
    if (wake.allInstalls) context.wake.allInstalls();
    if (write.kind === "session") options.onLive(session, agent);
  }

  async function answerGrant(wanted: GrantWanted): Promise<void> {
    if (!agent) return;
    const { job, attempt } = wanted;
    send({ type: "grant", job, attempt, ...(await grantFor(context, agent, wanted)) });
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
    if (frame.type !== "hello") return { kind: "frame", frame, now };
    return { kind: "hello", frame, facts: await helloFacts(frame), now };
  }

  async function helloFacts(hello: Extract<AgentFrame, { type: "hello" }>): Promise<HelloFacts> {
    const row = await store.read.agents.get(hello.agent);
    if (!row) return { isProven: false, unacked: [], logs: [], settings };
    const bytes = helloBytes(nonce, hello.agent, hello.bootId);
    const isProven = isSignedBy(row.identityKey, bytes, hello.proof);
    if (isProven) agent = row;
    const sent = await store.read.outbox.sent(row.audience);
    const logs = [];
    for (const { job, attempt } of isProven ? hello.jobs : []) {
      if (!(await isOurs(job))) continue;
      logs.push({ job, attempt, upTo: await context.logs.sizeBytes(job, attempt) });
    }
    return {
      record: { ...row, agent: row.id, isRevoked: row.revokedAt !== null },
      isProven,
      unacked: sent.map(({ id, seq, body }) => ({ row: id, seq: seq ?? 0, body })),
      logs,
      checkpoint: await store.read.audit.head(),
      settings,
    };
  }

  async function logInput(data: Buffer): Promise<LinkInput | undefined> {
    const frame = decodeLogFrame(data);
    if (!frame) return undefined;
    const now = context.now();
    if (!(await isOurs(frame.job))) return { kind: "log", frame, now };
    return { kind: "log", frame, durable: await durableBytes(frame), now };
  }

  function durableBytes({ job, attempt }: LogFrame): Promise<number> {
    return context.logs.sizeBytes(job, attempt);
  }

  async function isOurs(job: string): Promise<boolean> {
    const known = jobsOfAgent.get(job);
    if (known !== undefined) return known;
    const row = await store.read.jobs.get(job);
    const isMine = row !== undefined && row.audience === agent?.audience;
    jobsOfAgent.set(job, isMine);
    return isMine;
  }

  async function waitingCommands(limit: number): Promise<LinkInput | undefined> {
    if (!agent || state.phase !== "live") return undefined;
    const rows = await store.read.outbox.waiting(agent.audience, limit);
    return { kind: "waiting", rows: rows.map(({ id, body }) => ({ row: id, body })) };
  }

  function send(frame: ServerFrame): void {
    if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(frame));
  }
}

function parseFrame(data: Buffer): AgentFrame | undefined {
  try {
    return AgentFrame.safeParse(JSON.parse(data.toString("utf8"))).data;
  } catch {
    return undefined;
  }
}
