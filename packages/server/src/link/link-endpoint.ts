// Where agents connect: one WebSocket each, on the server's own port.

import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { FRAME_BYTES_MAX, LINK_PATH, LINK_PROTOCOL } from "@exclave/api";
import { WebSocketServer } from "ws";
import { audit, type Presence, type ServerContext } from "../context.ts";
import type { AgentRow } from "../store/rows.ts";
import { type LinkSession, startLinkSession } from "./link-session.ts";

const TICK_MS = 1_000;

export interface LinkEndpointOptions {
  readonly pingMs: number;
  /** Told when an agent came or went. */
  readonly onPresence: (agent: AgentRow) => void;
}

export interface LinkEndpoint extends Presence {
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  look(audience: string): void;
  close(): Promise<void>;
}

export function createLinkEndpoint(
  context: () => ServerContext,
  { pingMs, onPresence }: LinkEndpointOptions,
): LinkEndpoint {
  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: FRAME_BYTES_MAX + 1024,
    handleProtocols: (protocols) => (protocols.has(LINK_PROTOCOL) ? LINK_PROTOCOL : false),
  });
  const sessions = new Set<LinkSession>();
  const live = new Map<string, { readonly session: LinkSession; readonly agent: AgentRow }>();
  const goodbyes = new Set<Promise<unknown>>();
  const timer = setInterval(() => sessions.forEach((session) => session.tick()), TICK_MS);
  let isClosing = false;

  return { handleUpgrade, isOnline: (audience) => live.has(audience), look, close };

  function handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const path = new URL(request.url ?? "/", "http://server").pathname;
    if (path !== LINK_PATH || isClosing) {
      socket.end("HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n");
      return;
    }
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      // A few agents come back at once; many are spread out so that they do not come as a herd.
      const reconnectSpreadMs = Math.min(30_000, 200 + sessions.size * 20);
      const session = startLinkSession({
        context: context(),
        socket: webSocket,
        settings: { pingMs, reconnectSpreadMs },
        onLive,
        onClosed,
      });
      sessions.add(session);
    });
  }

  function onLive(session: LinkSession, agent: AgentRow): void {
    const before = live.get(agent.audience);
    live.set(agent.audience, { session, agent });
    before?.session.goAway("a later connection of this agent has taken over", 1_000);
    say(agent, "connected");
    onPresence(agent);
  }

  function onClosed(session: LinkSession): void {
    sessions.delete(session);
    for (const [audience, { session: held, agent }] of live) {
      if (held !== session) continue;
      live.delete(audience);
      say(agent, "disconnected");
      const goodbye = noteGoodbye(agent).finally(() => goodbyes.delete(goodbye));
      goodbyes.add(goodbye);
    }
  }

  async function noteGoodbye({ id }: AgentRow): Promise<void> {
    const { store, now, log } = context();
    try {
      const agent = await store.transaction(async (tx) => {
        const row = await tx.agents.get(id);
        if (!row) return undefined;
        await tx.agents.put({ ...row, seenAt: now() });
        await audit(tx, context(), {
          actor: id,
          action: "agent.disconnected",
          subject: row.audience,
          details: { epoch: row.sessionEpoch },
        });
        return row;
      });
      if (agent) onPresence(agent);
    } catch (reason) {
      log.warn({ reason, agent: id }, "an agent's going could not be noted");
    }
  }

  function say({ audience, kind, id }: AgentRow, what: string): void {
    const install = kind === "install" ? audience : null;
    const message = `the agent of ${audience} ${what}`;
    context().live.say({ kind: "agent", subject: id, install, component: null, message });
  }

  function look(audience: string): void {
    live.get(audience)?.session.look();
  }

  async function close(): Promise<void> {
    isClosing = true;
    clearInterval(timer);
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
