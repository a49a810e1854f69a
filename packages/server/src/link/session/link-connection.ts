// One agent's connection as it stands: its phase, who is at the other end, and frames on their way out.

import { randomBytes } from "node:crypto";
import { type ServerFrame, UNREAD_BYTES_MAX } from "@exclave/api";
import type { WebSocket } from "ws";
import type { ServerContext } from "../../context.ts";
import type { AgentRow } from "../../store/rows.ts";
import type { LinkState } from "../link-state.ts";
import type { AgentQuota } from "./agent-quota.ts";

export interface LinkConnection {
  /** What the agent has to sign. */
  readonly nonce: string;
  state: LinkState;
  /** Set once the agent has proven who it is. */
  peer: Peer | undefined;
  /** Cuts off an agent that does not read, before what it leaves unread fills the memory. */
  send(frame: ServerFrame): void;
  /** Says why and when to come back, and closes with that WebSocket code. */
  goAway(farewell: Farewell, closeCode: number): void;
  /** Its agent was revoked: it is told, and what it still says is not read. */
  revoke(): void;
}

export interface Peer {
  readonly agent: AgentRow;
  readonly quota: AgentQuota;
  /** It can be told when to leave. */
  readonly canDrain: boolean;
}

type GoAway = Extract<ServerFrame, { type: "goaway" }>;
type Farewell = Pick<GoAway, "code" | "because" | "retryAfterMs" | "spreadMs"> &
  Partial<Pick<GoAway, "permanent">>;

export function createLinkConnection(
  { log }: Pick<ServerContext, "log">,
  socket: WebSocket,
): LinkConnection {
  const nonce = randomBytes(24).toString("base64url");
  const connection: LinkConnection = {
    nonce,
    state: { phase: "challenged", nonce },
    peer: undefined,
    send,
    goAway(farewell, closeCode) {
      send({ type: "goaway", permanent: false, ...farewell });
      socket.close(closeCode);
    },
    revoke() {
      const because = "this agent was revoked; it has to join anew";
      connection.goAway({ code: "revoked", because, retryAfterMs: 0, permanent: true }, 1008);
      connection.state = { phase: "closed" };
    },
  };
  return connection;

  function send(frame: ServerFrame): void {
    if (socket.readyState !== socket.OPEN) return;
    socket.send(JSON.stringify(frame));
    if (socket.bufferedAmount <= UNREAD_BYTES_MAX) return;
    const agent = connection.peer?.agent.id;
    log.warn({ agent, bytes: socket.bufferedAmount }, "an agent does not read");
    connection.state = { phase: "closed" };
    socket.terminate();
  }
}
