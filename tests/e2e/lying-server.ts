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
  LINK_PATH,
  LINK_PROTOCOL,
  type ServerFrame,
} from "@exclave/api";
import type { Envelope } from "@exclave/core";
import { type WebSocket, WebSocketServer } from "ws";

export interface Lie {
  readonly name: string;
  readonly job: string;
  readonly attempt: number;
  readonly envelope: Envelope;
}

export interface LyingServer {
  /** Offers each lie, in order, to the agent that connects. */
  tell(lies: readonly Lie[]): void;
  readonly events: readonly AgentEvent[];
  close(): Promise<void>;
}

export async function startLyingServer(port: number): Promise<LyingServer> {
  const events = new Map<number, AgentEvent>();
  const server: Server = createServer((_, response) => response.writeHead(404).end());
  const sockets = new WebSocketServer({
    server,
    path: LINK_PATH,
    perMessageDeflate: false,
    handleProtocols: () => LINK_PROTOCOL,
  });
  // It repeats what its server says of the port, which is dealt with below.
  sockets.on("error", () => undefined);
  let told: readonly Lie[] = [];
  let say: (() => void) | undefined;

  sockets.on("connection", (socket: WebSocket) => {
    const send = (frame: ServerFrame) => socket.send(JSON.stringify(frame));
    send({ type: "challenge", nonce: randomBytes(16).toString("base64url") });
    socket.on("message", (data, isBinary) => {
      if (isBinary) return;
      const frame = AgentFrame.parse(JSON.parse((data as Buffer).toString()));
      if (frame.type === "event") events.set(frame.seq, frame.body);
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
      let seq = frame.downAcked;
      say = () => {
        for (const { job, attempt, envelope } of told) {
          seq += 1;
          send({
            type: "command",
            seq,
            body: { type: "job_offer", job: job as never, attempt, envelope },
          });
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
      told = lies;
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
