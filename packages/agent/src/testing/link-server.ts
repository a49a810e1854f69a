// The other end of a link, for tests: speaks real WebSocket on this machine, keeps what it hears, and
// says what a test tells it to say.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import {
  type AgentEvent,
  AgentFrame,
  decodeLogFrame,
  LINK_PATH,
  type ServerCommand,
  type ServerFrame,
} from "@exclave/api";
import { type WebSocket, WebSocketServer } from "ws";

export interface LinkServer {
  readonly url: string;
  /** Every event of the agent's sequence, once, in order. */
  readonly events: readonly AgentEvent[];
  readonly frames: readonly AgentFrame[];
  log(job: string): string;
  command(body: ServerCommand): void;
  /** Cuts the connection; the agent will come back. */
  cut(): void;
  until(isSo: () => boolean, what: string): Promise<void>;
}

export interface LinkServerOptions {
  /** Answers a frame that is no part of the sequences. */
  readonly answer?: (frame: AgentFrame) => ServerFrame | undefined;
}

const PATIENCE_MS = 15_000;

export async function startLinkServer(
  t: TestContext,
  { answer }: LinkServerOptions = {},
): Promise<LinkServer> {
  const http = createServer();
  const sockets = new WebSocketServer({ server: http, path: LINK_PATH });
  const events: AgentEvent[] = [];
  const frames: AgentFrame[] = [];
  const logs = new Map<string, Buffer>();
  const commands: ServerCommand[] = [];
  let upAcked = 0;
  let live: WebSocket | undefined;
  let changed = Promise.withResolvers<void>();

  sockets.on("connection", (socket) => {
    socket.on("message", (data: Buffer, isBinary) => {
      if (isBinary) takeLog(socket, data);
      else take(socket, AgentFrame.parse(JSON.parse(data.toString("utf8"))));
      changed.resolve();
      changed = Promise.withResolvers();
    });
    say(socket, { type: "challenge", nonce: "nonce" });
  });
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  t.after(() => {
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
    http.close();
  });

  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    events,
    frames,
    log: (job) => (logs.get(job) ?? Buffer.alloc(0)).toString("utf8"),
    command(body) {
      commands.push(body);
      if (live) say(live, { type: "command", seq: commands.length, body });
    },
    cut: () => live?.terminate(),
    async until(isSo, what) {
      const patience = AbortSignal.timeout(PATIENCE_MS);
      const over = once(patience, "abort").then(() => {
        throw new Error(`waited in vain until ${what}`);
      });
      over.catch(() => undefined);
      while (!isSo()) await Promise.race([changed.promise, over]);
    },
  };

  function take(socket: WebSocket, frame: AgentFrame): void {
    frames.push(frame);
    if (frame.type === "hello") return welcome(socket, frame);
    if (frame.type === "event") {
      if (frame.seq === upAcked + 1) {
        upAcked = frame.seq;
        events.push(frame.body);
      }
      return say(socket, { type: "ack", seq: upAcked });
    }
    const said = answer?.(frame);
    if (said) say(socket, said);
  }

  function welcome(socket: WebSocket, hello: Extract<AgentFrame, { type: "hello" }>): void {
    live = socket;
    say(socket, {
      type: "welcome",
      proto: 1,
      sessionEpoch: 1,
      serverTimeMs: 0,
      upAcked,
      capabilities: [],
      limits: { logCreditBytes: 1_000, frameBytes: 1_000 },
      pingMs: 30_000,
      reconnectSpreadMs: 0,
      logs: hello.jobs.map(({ job, attempt }) => ({
        job,
        attempt,
        upTo: logs.get(job)?.length ?? 0,
      })),
    });
    commands.forEach((body, index) => {
      if (index >= hello.downAcked) say(socket, { type: "command", seq: index + 1, body });
    });
  }

  function takeLog(socket: WebSocket, data: Buffer): void {
    const frame = decodeLogFrame(data);
    if (!frame) throw new Error("an agent sent bytes that are no log");
    const { job, attempt, offset, bytes } = frame;
    const kept = logs.get(job) ?? Buffer.alloc(0);
    if (offset <= kept.length) {
      logs.set(job, Buffer.concat([kept, bytes.subarray(kept.length - offset)]));
    }
    const upTo = logs.get(job)?.length ?? 0;
    say(socket, { type: "log_ack", job: job as never, attempt, upTo });
  }
}

function say(socket: WebSocket, frame: ServerFrame): void {
  socket.send(JSON.stringify(frame));
}
