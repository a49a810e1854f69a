// Keeps one connection to the server, dialled from here and from nowhere else. It carries frames and
// knows nothing of what they mean: deciding is the core's.

import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type AgentFrame,
  FRAME_BYTES_MAX,
  LINK_PATH,
  LINK_PROTOCOL,
  ServerFrame,
} from "@exclave/api";
import { WebSocket } from "ws";
import type { Log } from "./log.ts";
import { reconnectDelayMs } from "./reconnect.ts";

export interface LinkClientOptions {
  readonly serverUrl: string;
  readonly onFrame: (frame: ServerFrame) => void;
  /** Returns when the loss has been taken in: only then is the next connection dialled. */
  readonly onDisconnected: () => Promise<void>;
  readonly random: () => number;
  readonly log: Log;
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

const CONNECT_TIMEOUT_MS = 20_000;
/** Silence that long before the server has said how often it pings is a dead connection. */
const FIRST_SILENCE_MS = 30_000;
const SILENCE_PINGS = 2.5;
/** A server that says it never wants this agent is asked again, but rarely: people mend things. */
const PERMANENT_RETRY_MS = 600_000;

export function openLink(options: LinkClientOptions): LinkClient {
  const { serverUrl, onFrame, onDisconnected, random, log } = options;
  const stopping = new AbortController();
  let socket: WebSocket | undefined;
  let session = 0;
  let failures = 0;
  let spreadMs = 0;
  let retryAfterMs = 0;
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
      await connectOnce();
      await onDisconnected();
      const delayMs = reconnectDelayMs({ failures, spreadMs, retryAfterMs, roll: random() });
      failures++;
      retryAfterMs = 0;
      await sleep(delayMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  }

  /** From the dial to the end of the connection. */
  async function connectOnce(): Promise<void> {
    const opened = new WebSocket(linkUrl(serverUrl), LINK_PROTOCOL, {
      perMessageDeflate: false,
      maxPayload: FRAME_BYTES_MAX,
      handshakeTimeout: CONNECT_TIMEOUT_MS,
    });
    socket = opened;
    const watch = watchSilence(() => opened.terminate());
    opened.on("error", (reason) => {
      log[failures > 1 ? "debug" : "warn"]("the link to the server failed", { reason });
    });
    opened.on("message", (data: Buffer, isBinary) => {
      watch.heard();
      const frame = isBinary ? undefined : readFrame(data.toString("utf8"));
      if (!frame) return log.warn("the server sent something that is no frame");
      take(frame, watch);
      onFrame(frame);
    });
    await once(opened, "close").catch(() => undefined);
    watch.end();
  }

  function take(frame: ServerFrame, watch: SilenceWatch): void {
    if (frame.type === "welcome") {
      log.info("linked to the server", { server: serverUrl, epoch: frame.sessionEpoch });
      failures = 0;
      spreadMs = frame.reconnectSpreadMs;
      watch.allow(frame.pingMs * SILENCE_PINGS);
    }
    if (frame.type === "goaway") {
      retryAfterMs = frame.permanent ? PERMANENT_RETRY_MS : frame.retryAfterMs;
      log[frame.permanent ? "error" : "warn"]("the server sends this agent away", {
        code: frame.code,
        because: frame.because,
      });
    }
  }
}

export function linkUrl(serverUrl: string): string {
  const url = new URL(LINK_PATH, serverUrl);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

function readFrame(text: string): ServerFrame | undefined {
  try {
    return ServerFrame.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

interface SilenceWatch {
  heard(): void;
  allow(silenceMs: number): void;
  end(): void;
}

function watchSilence(onSilence: () => void): SilenceWatch {
  let silenceMs = FIRST_SILENCE_MS;
  let timer = setTimeout(onSilence, silenceMs);
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(onSilence, silenceMs);
  };
  return {
    heard,
    allow(ms) {
      silenceMs = ms;
      heard();
    },
    end: () => clearTimeout(timer),
  };
}
