// Keeps one connection to the server, dialled from here and from nowhere else. It carries frames and
// knows nothing of what they mean: deciding is the core's.

import { once } from "node:events";
import {
  type AgentFrame,
  type CallOff,
  createSystemTimers,
  LINK_PATH,
  readServerFrame,
  type ServerFrame,
  type Timers,
  type UnreadableCommand,
} from "@exclave/api";
import { certificateProblem } from "@exclave/machine";
import { WebSocket } from "ws";
import type { Log } from "../log.ts";
import { createDial, type Dial } from "./dial-server.ts";
import { createNextDial, PERMANENT_RETRY_MS, SPREAD_MS_MAX } from "./next-dial.ts";

export interface LinkClientOptions {
  readonly serverUrl: string;
  readonly onFrame: (frame: ServerFrame | UnreadableCommand) => void;
  /** Returns when the loss has been taken in: only then is the next connection dialled. */
  readonly onDisconnected: () => Promise<void>;
  readonly random: () => number;
  readonly log: Log;
  /** The system's unless given. */
  readonly timers?: Timers;
  /** Never set back, in milliseconds; the process's own unless given. */
  readonly elapsedMs?: () => number;
  /** Over the network unless given. */
  readonly dial?: Dial;
}

export interface LinkClient {
  /** What is said while nobody listens is lost; both sides know how to say it again. */
  send(frame: AgentFrame): void;
  sendBytes(frame: Uint8Array): void;
  /** Ends this connection; the next one is dialled after a pause. */
  drop(because: string): void;
  /** Changes with every connection. */
  readonly session: number;
  /** Ends the link for good. */
  close(): Promise<void>;
}

/** Silence that long before the server has said how often it pings is a dead connection. */
const FIRST_SILENCE_MS = 30_000;
const SILENCE_PINGS = 2.5;

/** Whatever the server says: an agent never waits for a word for ever. */
const SILENCE_MS_MAX = 300_000;

export function openLink(options: LinkClientOptions): LinkClient {
  const { serverUrl, onFrame, onDisconnected, random, log } = options;
  const { timers = createSystemTimers(), elapsedMs = () => performance.now() } = options;
  const { dial = createDial() } = options;
  const url = linkUrl(serverUrl);
  const stopping = new AbortController();
  let socket: WebSocket | undefined;
  let session = 0;
  let welcomedAt: number | undefined;
  const next = createNextDial(random);
  /** Dials in a row that were not welcome. */
  let failures = 0;
  const loop = run();

  return {
    send: (frame) => write(JSON.stringify(frame)),
    sendBytes: (frame) => write(frame),
    drop(because) {
      log.warn("dropping the link", { because });
      socket?.terminate();
    },
    get session() {
      return session;
    },
    async close() {
      stopping.abort();
      socket?.close(1000);
      socket?.terminate();
      await loop;
    },
  };

  function write(data: string | Uint8Array): void {
    if (socket?.readyState === WebSocket.OPEN) socket.send(data);
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      session++;
      welcomedAt = undefined;
      await connectOnce();
      const liveMs = welcomedAt === undefined ? undefined : elapsedMs() - welcomedAt;
      failures = liveMs === undefined ? failures + 1 : 0;
      await onDisconnected();
      const delayMs = next.pauseMs(liveMs);
      await timers.sleep(delayMs, stopping.signal).catch(() => undefined);
    }
  }

  /** From the dial to the end of the connection. */
  async function connectOnce(): Promise<void> {
    const opened = dial(url);
    socket = opened;
    const watch = watchSilence(timers, () => opened.terminate());
    let leave: CallOff = () => undefined;
    opened.on("error", (reason) => {
      const because = certificateProblem(reason);
      log[failures > 1 ? "debug" : "warn"]("the link to the server failed", { reason, because });
    });
    opened.on("unexpected-response", (_, response) => {
      const retryAfterMs = retryAfterMsOf(response.headers["retry-after"]);
      next.refused(retryAfterMs);
      log.info("the server is busy", { status: response.statusCode, retryAfterMs });
      opened.terminate();
    });
    opened.on("message", (data: Buffer, isBinary) => {
      watch.heard();
      const frame = isBinary ? undefined : readServerFrame(data.toString("utf8"));
      if (!frame) return log.warn("the server sent something that is no frame");
      take(frame, watch);
      if (frame.type === "drain") {
        leave();
        leave = timers.after(Math.min(frame.afterMs, SPREAD_MS_MAX), () => opened.close(1001));
      }
      onFrame(frame);
    });
    await once(opened, "close").catch(() => undefined);
    leave();
    watch.end();
  }

  function take(frame: ServerFrame | UnreadableCommand, watch: SilenceWatch): void {
    if (frame.type === "welcome") {
      log.info("linked to the server", { server: serverUrl, epoch: frame.sessionEpoch });
      welcomedAt = elapsedMs();
      next.welcomed(frame.reconnectSpreadMs);
      watch.allow(Math.min(frame.pingMs * SILENCE_PINGS, SILENCE_MS_MAX));
    }
    if (frame.type === "drain") {
      next.drained();
      const { afterMs } = frame;
      log.info("the server is stopping, and another connection is dialled", { afterMs });
    }
    if (frame.type === "goaway") {
      next.sentAway(frame);
      const { code, because, permanent } = frame;
      log[permanent ? "error" : "warn"]("the server sends this agent away", { code, because });
    }
  }
}

/** In seconds, as servers and balancers say it; a date is not understood. */
export function retryAfterMsOf(header: string | undefined): number {
  if (header === undefined || !/^\d{1,9}$/.test(header)) return 0;
  return Math.min(Number(header) * 1_000, PERMANENT_RETRY_MS);
}

export function linkUrl(serverUrl: string): string {
  const url = new URL(LINK_PATH, serverUrl);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

interface SilenceWatch {
  heard(): void;
  allow(silenceMs: number): void;
  end(): void;
}

function watchSilence(timers: Pick<Timers, "after">, onSilence: () => void): SilenceWatch {
  let silenceMs = FIRST_SILENCE_MS;
  let callOff = timers.after(silenceMs, onSilence);
  const heard = () => {
    callOff();
    callOff = timers.after(silenceMs, onSilence);
  };
  return {
    heard,
    allow(ms) {
      silenceMs = ms;
      heard();
    },
    end: () => callOff(),
  };
}
