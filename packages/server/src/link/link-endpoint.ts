// Where agents connect: one WebSocket each, on the server's own port.

import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import {
  createSystemTimers,
  FRAME_BYTES_MAX,
  LINK_PATH,
  LINK_PROTOCOL,
  type Timers,
} from "@exclave/api";
import { type Audience, Instant } from "@exclave/core";
import { type WebSocket, WebSocketServer } from "ws";
import { type AgentWatch, audit, type Presence, type ServerContext } from "../context.ts";
import type { AgentRow } from "../store/rows.ts";
import { createAgentQuotas } from "./agent-quota.ts";
import { admit, ageMsOf, COME_BACK_SECONDS, pingMsFor, spreadMsFor } from "./herd.ts";
import { type LinkSession, startLinkSession } from "./session/link-session.ts";

const TICK_MS = 1_000;
const SHOW_RECORD_EVERY_MS = 3 * 60_000;

interface LiveAgent {
  readonly session: LinkSession;
  readonly agent: AgentRow;
  watch: AgentWatch;
}
const TICKS_LATE_MAX = 3;

export interface LinkEndpointOptions {
  readonly pingMs: number;
  /** Told when an agent came or went. */
  readonly onPresence: (agent: AgentRow) => void;
  /** The system's unless given. */
  readonly timers?: Timers;
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
  accept(socket: WebSocket, address?: string): void;
  look(audience: Audience): void;
  /** That audience's agent was revoked: its connection ends now. */
  revoked(audience: Audience): void;
  /** There is a new trust document. */
  trustChanged(): void;
  /** Asks that agent for the checkpoints it kept; false when it is not connected. */
  askCheckpoints(audience: Audience): boolean;
  close(): Promise<void>;
}

export function createLinkEndpoint(
  context: () => ServerContext,
  options: LinkEndpointOptions,
): LinkEndpoint {
  const { pingMs, onPresence, tickMs = TICK_MS } = options;
  const { timers = createSystemTimers(), elapsedMs = () => performance.now() } = options;
  const { random = Math.random } = options;
  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: FRAME_BYTES_MAX + 1024,
    handleProtocols: (protocols) => (protocols.has(LINK_PROTOCOL) ? LINK_PROTOCOL : false),
  });
  const sessions = new Set<LinkSession>();
  const live = new Map<Audience, LiveAgent>();
  const audiences = new WeakMap<LinkSession, Audience>();
  /** Those that have yet to say whose they are, oldest first, and since when. */
  const unproven = new Map<LinkSession, number>();
  const quotas = createAgentQuotas();
  const goodbyes = new Set<Promise<unknown>>();
  const stopTicking = timers.every(tickMs, tick);
  let tickedAt = elapsedMs();
  const stopShowing = timers.every(SHOW_RECORD_EVERY_MS, showRecord);
  let isClosing = false;

  return {
    handleUpgrade,
    accept,
    isOnline: (audience) => live.has(audience),
    watchOf: (audience) => live.get(audience)?.watch,
    look,
    revoked: (audience) => live.get(audience)?.session.revoked(),
    trustChanged,
    askCheckpoints,
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
    if (path !== LINK_PATH || isClosing) {
      // The other side may never close its half: it is not waited for.
      socket.end("HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n", () => socket.destroy());
      return;
    }
    if (!makeRoom()) {
      const answer = `HTTP/1.1 503 Service Unavailable\r\nretry-after: ${COME_BACK_SECONDS}`;
      socket.end(`${answer}\r\nconnection: close\r\n\r\n`, () => socket.destroy());
      return;
    }
    const { remoteAddress } = request.socket;
    sockets.handleUpgrade(request, socket, head, (opened) => accept(opened, remoteAddress));
  }

  function accept(socket: WebSocket, address?: string): void {
    const session = startLinkSession({
      context: context(),
      socket,
      address,
      settings: {
        pingMs: pingMsFor(sessions.size, pingMs),
        reconnectSpreadMs: spreadMsFor(sessions.size),
        ageMs: ageMsOf(random()),
      },
      quotas,
      timers,
      onLive,
      onLooks,
      onClosed,
    });
    sessions.add(session);
    unproven.set(session, elapsedMs());
  }

  /** Whether there is room for a connection that proves nothing yet. */
  function makeRoom(): boolean {
    const [oldest] = unproven;
    const oldestMs = oldest ? elapsedMs() - oldest[1] : 0;
    const admission = admit({ count: unproven.size, oldestMs });
    if (admission === "for_the_oldest") oldest?.[0].cut();
    return admission !== "later";
  }

  function onLive(session: LinkSession, agent: AgentRow): void {
    unproven.delete(session);
    const before = live.get(agent.audience);
    const watch = { since: context().now(), looks: new Map() };
    live.set(agent.audience, { session, agent, watch });
    audiences.set(session, agent.audience);
    before?.session.goAway("a later connection of this agent has taken over", 1_000);
    say(agent, "connected");
    onPresence(agent);
  }

  function onLooks(session: LinkSession, looks: readonly { component: string; agoMs: number }[]) {
    const audience = audiences.get(session);
    const held = audience === undefined ? undefined : live.get(audience);
    if (held?.session !== session) return;
    const now = context().now();
    const seen = looks.map(
      ({ component, agoMs }) => [component, Instant.parse(Math.max(0, now - agoMs))] as const,
    );
    held.watch = { ...held.watch, looks: new Map(seen) };
  }

  function onClosed(session: LinkSession, agent: AgentRow | undefined): void {
    sessions.delete(session);
    unproven.delete(session);
    if (!agent || live.get(agent.audience)?.session !== session) return;
    live.delete(agent.audience);
    say(agent, "disconnected");
    const goodbye = noteGoodbye(agent).finally(() => goodbyes.delete(goodbye));
    goodbyes.add(goodbye);
  }

  async function noteGoodbye({ id }: AgentRow): Promise<void> {
    const { store, now, log } = context();
    try {
      const agent = await store.transaction(async (tx) => {
        const row = await tx.agents.get(id);
        if (!row) return undefined;
        await tx.agents.put({ ...row, seenAt: now() });
        const details = { epoch: row.sessionEpoch };
        const gone = { actor: id, action: "agent.disconnected", subject: row.audience, details };
        if (context().repeats.isFirst(gone)) await audit(tx, context(), gone);
        return row;
      });
      if (agent) onPresence(agent);
    } catch (reason) {
      log.warn({ reason, agent: id }, "an agent's going could not be noted");
    }
  }

  function say({ audience, installName, id }: AgentRow, what: string): void {
    const name = installName ?? audience;
    const install = installName === null ? null : { id: audience, name };
    const message = `the agent of ${name} ${what}`;
    context().live.say({ kind: "agent", subject: id, install, component: null, message });
  }

  function look(audience: Audience): void {
    live.get(audience)?.session.look();
  }

  function showRecord(): void {
    for (const { session } of live.values()) session.showRecord();
  }

  function askCheckpoints(audience: Audience): boolean {
    const held = live.get(audience);
    held?.session.askCheckpoints();
    return held !== undefined;
  }

  function trustChanged(): void {
    for (const { session } of live.values()) session.trustChanged();
  }

  async function close(): Promise<void> {
    isClosing = true;
    stopTicking();
    stopShowing();
    for (const session of sessions) session.goAway("the server is stopping", 500);
    sockets.close();
    const deadline = Date.now() + 1_000;
    while (sessions.size > 0 && Date.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    for (const client of sockets.clients) client.terminate();
    await Promise.allSettled(goodbyes);
  }
}
