// Where agents connect: one WebSocket each, on the server's own port.

import type { X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { TLSSocket } from "node:tls";
import {
  createSystemTimers,
  FRAME_BYTES_MAX,
  LINK_PATH,
  LINK_PROTOCOL,
  type Timers,
} from "@exclave/api";
import type { Audience } from "@exclave/core";
import { type WebSocket, WebSocketServer } from "ws";
import type { Presence, ServerContext } from "../context.ts";
import type { AgentRow } from "../store/rows.ts";
import type { PresentedCertificate } from "../tls/certificate-rules.ts";
import { drainSessions } from "./herd/drain-sessions.ts";
import { admit, ageMsOf, COME_BACK_SECONDS, pingMsFor, spreadMsFor } from "./herd/herd.ts";
import { createLiveAgents, type LiveAgent, type LiveAgents } from "./live-agents.ts";
import { createAgentQuotas } from "./session/agent-quota.ts";
import { type LinkSession, startLinkSession } from "./session/link-session.ts";

const TICK_MS = 1_000;
const SHOW_RECORD_EVERY_MS = 3 * 60_000;

const TICKS_LATE_MAX = 3;
const MOVED_MS = 1_000;
/** Agents that are told something in one turn: each may cost a read and a frame. */
const SLICE = 50;

export interface LinkEndpointOptions {
  readonly pingMs: number;
  /** Told when an agent came or went. */
  readonly onPresence: (agent: AgentRow) => void;
  /** A server listens before it knows all it needs to greet anybody, and its agents are waiting; so it is unless said. */
  readonly isReady?: () => boolean;
  /** The system's unless given. */
  readonly timers?: Timers;
  /** Lets others go first; a turn of the event loop unless given. */
  readonly nextTurn?: () => Promise<void>;
  /** Never set back, in milliseconds; the process's own unless given. */
  readonly elapsedMs?: () => number;
  /** How often sessions look at the time. */
  readonly tickMs?: number;
  /** Uniform in [0, 1). */
  readonly random?: () => number;
}

export interface LinkEndpoint extends Presence {
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** A connection that is up; whose it is, it has yet to say. */
  accept(socket: WebSocket, address?: string, presented?: PresentedCertificate): void;
  /** Agents that are connected, by kind. */
  connected(): ReadonlyMap<AgentRow["kind"], number>;
  look(audience: Audience): void;
  /** That audience's agent was revoked: its connection ends now. */
  revoked(audience: Audience): void;
  /** A later connection of that agent is with another server: whether one of before was here. */
  moved(audience: Audience, epoch: number): boolean;
  /** Looks at the outbox of everybody who is connected, a few at a time. */
  lookAll(): void;
  /** Sends everybody away: none of these connections counts any more. */
  begin(because: string): void;
  /** There is a new trust document. */
  trustChanged(): void;
  /** Other authorities vouch for this server than before. */
  authoritiesChanged(): void;
  /** Asks that agent for the checkpoints it kept; false when it is not connected. */
  askCheckpoints(audience: Audience): boolean;
  /** Where other servers take the agents they leave one by one; else all at once, to come back in slots. */
  close(options?: { readonly isAlone: boolean }): Promise<void>;
}

export function createLinkEndpoint(
  context: () => ServerContext,
  options: LinkEndpointOptions,
): LinkEndpoint {
  const { pingMs, tickMs = TICK_MS, random = Math.random, isReady = () => true } = options;
  const { timers = createSystemTimers(), elapsedMs = () => performance.now() } = options;
  const nextTurn = options.nextTurn ?? setImmediate;
  const sockets = createSockets();
  const sessions = new Set<LinkSession>();
  const live = createLiveAgents(context, options.onPresence);
  /** Those that have yet to say whose they are, oldest first, and since when. */
  const unproven = new Map<LinkSession, number>();
  const quotas = createAgentQuotas();
  let tickedAt = elapsedMs();
  const inSlices = (tell: (session: LinkSession) => void) =>
    void tellInSlices(live.sessions(), (one) => sessions.has(one) && tell(one), nextTurn);
  const show = () => inSlices((session) => session.showRecord());
  const stops = [timers.every(tickMs, tick), timers.every(SHOW_RECORD_EVERY_MS, show)];
  /** Aborted when the last connection of a server that stops is over. */
  const gone = new AbortController();
  let isClosing = false;

  return {
    handleUpgrade,
    accept,
    ...toLive(live, inSlices),
    begin(because) {
      for (const session of sessions) session.goAway(because, MOVED_MS);
    },
    close,
  };

  /** A server that was busy has not read what agents said meanwhile: it is not they who fell silent. */
  function tick(): void {
    const isLate = elapsedMs() - tickedAt > TICKS_LATE_MAX * tickMs;
    tickedAt = elapsedMs();
    if (!isLate) for (const session of sessions) session.tick();
  }

  function handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const path = new URL(request.url ?? "/", "http://server").pathname;
    if (path !== LINK_PATH) return refuse(socket, "404 Not Found");
    // A server that stops: another one behind the same address may take it. One that starts is soon ready.
    if (isClosing || !isReady()) return refuse(socket, comeBackAfter(1));
    if (!makeRoom(unproven, elapsedMs())) return refuse(socket, comeBackAfter(COME_BACK_SECONDS));
    const presented = context().certificates?.read(peerCertificateOf(request.socket));
    sockets.handleUpgrade(request, socket, head, (link) =>
      accept(link, request.socket.remoteAddress, presented),
    );
  }

  function accept(socket: WebSocket, address?: string, presented?: PresentedCertificate): void {
    const session = startLinkSession({
      context: context(),
      socket,
      address,
      settings: settingsAmong(sessions.size, pingMs, random),
      quotas,
      presented,
      timers,
      nextTurn,
      onLive(proven, agent, epoch) {
        unproven.delete(proven);
        live.enter(proven, agent, epoch);
      },
      onLooks: (from, looks) => live.note(from, looks),
      onClosed,
    });
    sessions.add(session);
    unproven.set(session, elapsedMs());
  }

  function onClosed(session: LinkSession, agent: AgentRow | undefined): void {
    sessions.delete(session);
    unproven.delete(session);
    if (agent) live.leave(session, agent);
    if (sessions.size === 0 && isClosing) gone.abort();
  }

  async function close({ isAlone } = { isAlone: true }): Promise<void> {
    isClosing = true;
    live.stopping();
    await drainSessions(sessions, { isAlone, timers, nextTurn, gone: gone.signal });
    for (const stop of stops) stop();
    for (const client of sockets.clients) client.terminate();
    sockets.close();
    await live.goodbyes();
  }
}

/** What is asked of, or said to, agents that are connected. */
function toLive(
  live: LiveAgents,
  inSlices: (tell: (session: LinkSession) => void) => void,
): Omit<LinkEndpoint, "handleUpgrade" | "accept" | "begin" | "close"> {
  return {
    isOnline: (audience) => live.of(audience) !== undefined,
    connected: () => live.counts(),
    watchOf: (audience) => live.of(audience)?.watch,
    look: (audience) => live.of(audience)?.session.look(),
    lookAll: () => inSlices((session) => session.look()),
    revoked: (audience) => live.of(audience)?.session.revoked(),
    moved: (audience, epoch) => live.moved(audience, epoch),
    trustChanged: () => inSlices((session) => session.trustChanged()),
    authoritiesChanged: () => inSlices((session) => session.authoritiesChanged()),
    askCheckpoints: (audience) => isAsked(live.of(audience)),
  };
}

/** What every agent is to be told, a few in each turn of the event loop. One that comes meanwhile is told in its greeting. */
async function tellInSlices(
  all: readonly LinkSession[],
  tell: (session: LinkSession) => void,
  nextTurn: () => Promise<void> = setImmediate,
): Promise<void> {
  for (let from = 0; from < all.length; from += SLICE) {
    if (from > 0) await nextTurn();
    for (const session of all.slice(from, from + SLICE)) tell(session);
  }
}

/** Whether there is room for a connection that proves nothing yet. */
function makeRoom(unproven: ReadonlyMap<LinkSession, number>, nowMs: number): boolean {
  const [oldest] = unproven;
  const oldestMs = oldest ? nowMs - oldest[1] : 0;
  const admission = admit({ count: unproven.size, oldestMs });
  if (admission === "for_the_oldest") oldest?.[0].cut();
  return admission !== "later";
}

function createSockets(): WebSocketServer {
  return new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: FRAME_BYTES_MAX + 1024,
    handleProtocols: (protocols) => (protocols.has(LINK_PROTOCOL) ? LINK_PROTOCOL : false),
  });
}

function comeBackAfter(seconds: number): string {
  return `503 Service Unavailable\r\nretry-after: ${seconds}`;
}

/** The other side may never close its half: it is not waited for. */
function refuse(socket: Duplex, status: string): void {
  socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\n\r\n`, () => socket.destroy());
}

function isAsked(held: LiveAgent | undefined): boolean {
  held?.session.askCheckpoints();
  return held !== undefined;
}

function peerCertificateOf(socket: Socket): X509Certificate | undefined {
  return socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined;
}

/** What a new connection is told, by how many there are. */
function settingsAmong(connected: number, pingMs: number, random: () => number) {
  return {
    pingMs: pingMsFor(connected, pingMs),
    reconnectSpreadMs: spreadMsFor(connected),
    ageMs: ageMsOf(random()),
  };
}
