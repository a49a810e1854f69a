// One agent's session: feeds what comes in to the link machine, one at a time, and carries out its effects in the
// order they are given.

import {
  type CallOff,
  COMMAND_WINDOW,
  createSystemTimers,
  decodeLogFrame,
  FRAME_BYTES_MAX,
  type LogFrame,
  THROTTLED_RETRY_MS,
  type Timers,
} from "@exclave/api";
import { asFailure } from "@exclave/core";
import type { WebSocket } from "ws";
import { noteOnRecord } from "../../access/note-refusal.ts";
import type { ServerContext } from "../../context.ts";
import type { AgentRow } from "../../store/rows.ts";
import type { PresentedCertificate } from "../../tls/certificate-rules.ts";
import type { LinkInput, LinkSettings } from "../link-state.ts";
import { isTickDue } from "../server-core.ts";
import { type AgentFrames, createAgentFrames } from "./agent-frames.ts";
import type { AgentQuotas } from "./agent-quota.ts";
import { createLinkConnection, type LinkConnection } from "./link-connection.ts";
import { createLinkEffects, type Looks } from "./link-effects.ts";
import { createLinkInbox, type Waiting } from "./link-inbox.ts";
import { advanceTogether } from "./merge-effects.ts";
import { createShownDocuments } from "./shown-documents.ts";
import { type DrainSlot, tellToLeave } from "./tell-to-leave.ts";

const LOG_CREDIT_BYTES = 1024 * 1024;
const OLD = "this connection is old; a new one takes its place";

export interface LinkSessionOptions {
  readonly context: ServerContext;
  readonly socket: WebSocket;
  /** Where it comes from, as far as that is known. */
  readonly address?: string | undefined;
  readonly settings: Pick<LinkSettings, "pingMs" | "reconnectSpreadMs"> & {
    /** How old it may become. */
    readonly ageMs: number;
  };
  readonly quotas: AgentQuotas;
  /** What the connection shows of its peer, where it is asked. */
  readonly presented?: PresentedCertificate | undefined;
  /** The system's unless given. */
  readonly timers?: Timers;
  /** Lets others go first; a turn of the event loop unless given. */
  readonly nextTurn?: (() => Promise<void>) | undefined;
  onLive(session: LinkSession, agent: AgentRow, epoch: number): void;
  onLooks(session: LinkSession, looks: Looks): void;
  /** With its agent, if it ever was one. */
  onClosed(session: LinkSession, agent: AgentRow | undefined): void;
}

export interface LinkSession {
  /** There may be something in the outbox. */
  look(): void;
  /** There is a trust document the agent may not have. */
  trustChanged(): void;
  /** Other authorities vouch for this server than before. */
  authoritiesChanged(): void;
  /** Shows the agent how the record has grown. */
  showRecord(): void;
  /** Asks the agent for the checkpoints it kept. */
  askCheckpoints(): void;
  tick(): void;
  /** Its agent was revoked: it is told, and the connection ends. */
  revoked(): void;
  /** Ends the connection without a word. */
  cut(): void;
  goAway(because: string, retryAfterMs: number): void;
  /** The server stops: nothing more is offered, what the agent said is acknowledged, and it is told when to leave. */
  drain(slot: DrainSlot): void;
}

export function startLinkSession(options: LinkSessionOptions): LinkSession {
  const { context, socket, timers = createSystemTimers(), nextTurn } = options;
  const { now } = context;
  const { ageMs, ...told } = options.settings;
  const callOffs: CallOff[] = [];
  let isDraining = false;
  const settings: LinkSettings = {
    ...told,
    logCreditBytes: LOG_CREDIT_BYTES,
    frameBytes: FRAME_BYTES_MAX,
  };
  const connection = createLinkConnection(context, socket);
  const documents = createShownDocuments(context, connection);
  const peer = { address: options.address, quotas: options.quotas, presented: options.presented };
  const frames = createAgentFrames(context, { connection, socket, documents, settings, ...peer });
  const effects = createLinkEffects(context, {
    connection,
    socket,
    documents,
    look,
    onLive: (agent, epoch) => options.onLive(session, agent, epoch),
    onLooks: (looks) => options.onLooks(session, looks),
  });
  const readLog = (log: LogFrame) => frames.readLog(log);
  const turns = { now, timers, nextTurn };
  const inbox = createLinkInbox({ connection, socket, ...turns, readLog, take, onFailed });

  const session: LinkSession = {
    look: () => look(COMMAND_WINDOW),
    trustChanged: () => inTurn(() => documents.sendTrust()),
    authoritiesChanged: () => inTurn(() => documents.sendAuthorities()),
    showRecord: () => inTurn(() => documents.sendCheckpoint()),
    askCheckpoints: () => documents.askCheckpoints(),
    tick() {
      if (!isTickDue(connection.state, now())) return;
      // An agent that has to wait is not pinged meanwhile: what it said is still to be read.
      if (!inbox.isFull()) inbox.add({ read: async () => ({ kind: "tick", now: now() }) });
    },
    revoked: () => connection.revoke(),
    cut: () => socket.terminate(),
    goAway: (because, retryAfterMs) =>
      connection.goAway({ code: "moving", because, retryAfterMs }, 1001),
    drain(slot) {
      isDraining = true;
      inTurn(() => void callOffs.push(tellToLeave(connection, timers, slot)));
    },
  };

  // Whoever has not said hello by then is not an agent.
  const calmDown = timers.after(settings.pingMs, () => {
    if (connection.state.phase === "challenged") socket.close(1008);
  });
  // Old connections would stay where they are when servers are added, and keep what a new one is told.
  const stayYoung = timers.after(ageMs, () =>
    connection.goAway({ code: "moving", because: OLD, retryAfterMs: 0, spreadMs: 0 }, 1001),
  );
  socket.on("message", (data: Buffer, isBinary: boolean) =>
    inbox.add(incoming(frames, data, isBinary)),
  );
  socket.on("error", (error) => context.log.debug({ error }, "a link's socket failed"));
  socket.on("close", () => {
    for (const callOff of [calmDown, stayYoung, ...callOffs]) callOff();
    connection.state = { phase: "closed" };
    inbox.clear();
    options.onClosed(session, connection.peer?.agent);
  });
  inbox.add({ read: async () => ({ kind: "opened", nonce: connection.nonce }) });
  return session;

  async function take(inputs: readonly LinkInput[]): Promise<void> {
    const next = advanceTogether(connection.state, inputs);
    for (const effect of next.effects) await effects.carryOut(effect);
    if (connection.state.phase !== "closed") connection.state = next.state;
  }

  function look(limit: number): void {
    if (isDraining) return;
    inbox.add({ read: () => waitingCommands(context, connection, limit) });
  }

  /** After what came before it, and without the machine. */
  function inTurn(work: () => void | Promise<void>): void {
    inbox.add({
      read: async () => {
        await work();
        return undefined;
      },
    });
  }

  function onFailed(reason: unknown): Promise<void> {
    return endForFailure(context, connection, reason);
  }
}

async function endForFailure(
  context: ServerContext,
  connection: LinkConnection,
  reason: unknown,
): Promise<void> {
  const { code, message } = asFailure(reason);
  const agent = connection.peer?.agent;
  context.log.warn({ agent: agent?.id, code, reason: message }, "a link is closed");
  const isThrottled = code === "rate_limited";
  if (isThrottled && agent) {
    const entry = { actor: agent.id, action: "agent.throttled", subject: agent.audience };
    await noteOnRecord(context, { ...entry, details: { because: message } });
  }
  const retryAfterMs = isThrottled ? THROTTLED_RETRY_MS : 1_000;
  connection.goAway({ code, because: message, retryAfterMs }, 1011);
  connection.state = { phase: "closed" };
}

function incoming(frames: AgentFrames, data: Buffer, isBinary: boolean): Waiting {
  const log = isBinary ? decodeLogFrame(data) : undefined;
  const read = async () => (isBinary ? undefined : frames.read(data));
  return { read, bytes: data.length, isControl: !isBinary, ...(log && { log }) };
}

async function waitingCommands(
  { store }: ServerContext,
  { peer, state }: LinkConnection,
  limit: number,
): Promise<LinkInput | undefined> {
  if (!peer || state.phase !== "live") return undefined;
  const rows = await store.read.outbox.waiting(peer.agent.audience, limit);
  return { kind: "waiting", rows: rows.map(({ id, body }) => ({ row: id, body })) };
}
