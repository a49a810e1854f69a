// Keeps one connection to the server, dialled from here and from nowhere else. It carries frames and
// knows nothing of what they mean: deciding is the core's.

import { once } from "node:events";
import {
  type AgentFrame,
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
import { failuresAfter, reconnectDelayMs } from "./reconnect.ts";

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

type GoAway = Extract<ServerFrame, { type: "goaway" }>;

/** Silence that long before the server has said how often it pings is a dead connection. */
const FIRST_SILENCE_MS = 30_000;
const SILENCE_PINGS = 2.5;
/** A server that says it never wants this agent is retried, but rarely: people mend things. */
const PERMANENT_RETRY_MS = 600_000;

/** Whatever the server says: an agent is never told to stay away, or to wait for a word, for ever. */
const SPREAD_MS_MAX = 300_000;
const SILENCE_MS_MAX = 300_000;

export function openLink(options: LinkClientOptions): LinkClient {
  const { serverUrl, onFrame, onDisconnected, random, log } = options;
  const { timers = createSystemTimers(), elapsedMs = () => performance.now() } = options;
  const { dial = createDial() } = options;
  const url = linkUrl(serverUrl);
  const stopping = new AbortController();
  let socket: WebSocket | undefined;
  let session = 0;
  let failures = 0;
  let spreadMs = 0;
  let retryAfterMs = 0;
  let welcomedAt: number | undefined;
  /** A certificate that was just given is used at once; if it does not help, as for any other failure. */
  let isCertificateHelpful = true;
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
      const wasWelcome = welcomedAt !== undefined;
      failures = failuresAfter(failures, elapsedMs() - (welcomedAt ?? elapsedMs()));
      await onDisconnected();
      const roll = random();
      const delayMs = reconnectDelayMs({ failures, wasWelcome, spreadMs, retryAfterMs, roll });
      failures++;
      retryAfterMs = 0;
      await timers.sleep(delayMs, stopping.signal).catch(() => undefined);
    }
  }

  /** From the dial to the end of the connection. */
  async function connectOnce(): Promise<void> {
    const opened = dial(url);
    socket = opened;
    const watch = watchSilence(timers, () => opened.terminate());
    opened.on("error", (reason) => {
      const because = certificateProblem(reason);
      log[failures > 1 ? "debug" : "warn"]("the link to the server failed", { reason, because });
    });
    opened.on("unexpected-response", (_, response) => {
      retryAfterMs = retryAfterMsOf(response.headers["retry-after"]);
      const { statusCode: status } = response;
      log.info("the server does not take the connection", { status, retryAfterMs });
      opened.terminate();
    });
    opened.on("message", (data: Buffer, isBinary) => {
      watch.heard();
      const frame = isBinary ? undefined : readServerFrame(data.toString("utf8"));
      if (!frame) return log.warn("the server sent something that is no frame");
      take(frame, watch);
      onFrame(frame);
    });
    await once(opened, "close").catch(() => undefined);
    watch.end();
  }

  function take(frame: ServerFrame | UnreadableCommand, watch: SilenceWatch): void {
    if (frame.type === "welcome") {
      log.info("linked to the server", { server: serverUrl, epoch: frame.sessionEpoch });
      welcomedAt = elapsedMs();
      isCertificateHelpful = true;
      spreadMs = Math.min(frame.reconnectSpreadMs, SPREAD_MS_MAX);
      watch.allow(Math.min(frame.pingMs * SILENCE_PINGS, SILENCE_MS_MAX));
    }
    if (frame.type === "goaway") {
      retryAfterMs = stayAwayMs(frame);
      spreadMs = Math.min(frame.spreadMs ?? spreadMs, SPREAD_MS_MAX);
      const isCertified = frame.code === "certificate" && !frame.permanent;
      if (isCertified && isCertificateHelpful) failures = 0;
      isCertificateHelpful &&= !isCertified;
      const { code, because, permanent } = frame;
      log[permanent ? "error" : "warn"]("the server sends this agent away", { code, because });
    }
  }
}

function stayAwayMs({ permanent, retryAfterMs }: GoAway): number {
  return permanent ? PERMANENT_RETRY_MS : Math.min(retryAfterMs, PERMANENT_RETRY_MS);
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
