// A server that lies: it answers on the real one's address, speaks the link faultlessly, and offers
// whatever envelopes it is told to. It acknowledges nothing, so what the agent says is kept for the
// real server.

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type AgentEvent,
  AgentFrame,
  type Grant,
  LINK_PATH,
  LINK_PROTOCOL,
  type ServerCommand,
  type ServerFrame,
} from "@exclave/api";
import type { Envelope, JobId } from "@exclave/core";
import type { Registry } from "@exclave/oci";
import { type WebSocket, WebSocketServer } from "ws";

export interface Lie {
  readonly name: string;
  readonly job: string;
  readonly attempt: number;
  readonly envelope: Envelope;
}

export type Said = ServerCommand | Extract<ServerFrame, { type: "trust" }>;

export interface StolenThings {
  /** What the agent has seen of the real record: whoever took the server has that too. */
  readonly record?: Extract<ServerFrame, { type: "checkpoint" }>;
  /** What it gives to a job that asks for registry access. */
  readonly grant?: Grant;
  /** What it serves as the vendor's registry. */
  readonly registry?: Pick<Registry, "handle">;
}

export interface LyingServer {
  /** Offers each lie, in order, to the agent that connects. */
  tell(lies: readonly Lie[]): void;
  /** Says anything else, in order. */
  say(said: readonly Said[]): void;
  readonly events: readonly AgentEvent[];
  close(): Promise<void>;
}

export async function startLyingServer(
  port: number,
  { record, grant, registry }: StolenThings = {},
): Promise<LyingServer> {
  const events = new Map<number, AgentEvent>();
  const server: Server = createServer((request, response) => {
    if (registry && request.url?.startsWith("/v2/")) void registry.handle(request, response);
    else response.writeHead(404).end();
  });
  const sockets = new WebSocketServer({
    server,
    path: LINK_PATH,
    perMessageDeflate: false,
    handleProtocols: () => LINK_PROTOCOL,
  });
  // It repeats what its server says of the port, which is dealt with below.
  sockets.on("error", () => undefined);
  let told: readonly Said[] = [];
  let say: (() => void) | undefined;

  sockets.on("connection", (socket: WebSocket) => {
    const send = (frame: ServerFrame) => socket.send(JSON.stringify(frame));
    send({ type: "challenge", nonce: randomBytes(16).toString("base64url") });
    socket.on("message", (data, isBinary) => {
      if (isBinary) return;
      const frame = AgentFrame.parse(JSON.parse((data as Buffer).toString()));
      if (frame.type === "event") events.set(frame.seq, frame.body);
      if (frame.type === "grant_want" && grant) {
        send({ type: "grant", job: frame.job, attempt: frame.attempt, grant });
      }
      if (frame.type !== "hello") return;
      send({
        type: "welcome",
        proto: 1,
        sessionEpoch: 1_000_000,
        serverTimeMs: Date.now(),
        upAcked: Math.max(0, frame.upFrom - 1),
        capabilities: [],
        limits: { logCreditBytes: 262_144, frameBytes: 262_144 },
        pingMs: 20_000,
        reconnectSpreadMs: 0,
        logs: [],
      });
      if (record) send(record);
      let seq = frame.downAcked;
      say = () => {
        for (const said of told) {
          if (said.type === "trust") send(said);
          else send({ type: "command", seq: ++seq, body: said });
        }
        told = [];
      };
      say();
    });
  });

  // The kernel lets go of a killed process's port a moment after the process is gone from sight.
  for (let tries = 0; ; tries++) {
    try {
      server.listen(port, "127.0.0.1");
      await once(server, "listening");
      break;
    } catch (reason) {
      if (tries === 50) throw reason;
      await sleep(100);
    }
  }
  return {
    tell(lies) {
      told = lies.map(({ job, attempt, envelope }) => ({
        type: "job_offer",
        job: job as JobId,
        attempt,
        envelope,
      }));
      say?.();
    },
    say(said) {
      told = said;
      say?.();
    },
    get events() {
      return [...events.values()];
    },
    async close() {
      for (const socket of sockets.clients) socket.terminate();
      if (!server.listening) return;
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
