// Downloads over plain sockets. A connection reads into one buffer of its own, again and again, and
// reads on only when the taker is done with what it got: no allocation per chunk, and exactly as
// much in memory as one buffer holds, however large the blob. (Measured: node:http takes 2 to 3
// times the processor time for the same bytes.) Only what blobs need of HTTP/1.1 is here: a GET, and
// an answer that says its length. Anything else is left to the caller to ask for in another way.

import net from "node:net";
import tls from "node:tls";
import { Failure } from "@exclave/core";
import { CONNECT_TIMEOUT_MS, limitConnecting } from "./connect-timeout.ts";
import { createPieces, createPlainInbox } from "./raw-inbox.ts";
import { silentFailure } from "./registry-failure.ts";
import { trustIn } from "./tls-trust.ts";

/** Takes bytes that are only good until the promise settles. */
export type Sink = (chunk: Uint8Array) => Promise<void>;

export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined when the answer is of a form this client does not read: it can only be dropped. */
  readonly length: number | undefined;
  /** Hands over the whole body; fails if it ends too early. The connection can be used again after. */
  pour(sink: Sink): Promise<void>;
  drop(): void;
}

export interface RawDownloads {
  get(
    url: URL,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ): Promise<RawAnswer>;
  close(): void;
}

export interface RawDownloadOptions {
  readonly ca?: string | Buffer | undefined;
  readonly idleTimeoutMs: number;
  readonly connectTimeoutMs?: number;
}

const PLAIN_BUFFER_BYTES = 1024 * 1024;
const TLS_BUFFER_BYTES = 64 * 1024;
const HEAD_END = "\r\n\r\n";
const HEAD_BYTES_MAX = 64 * 1024;
const IDLE_CONNECTIONS_MAX = 8;

export function createRawDownloads(options: RawDownloadOptions): RawDownloads {
  const idle = new Map<string, Connection[]>();

  return { get, close };

  async function get(
    url: URL,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ): Promise<RawAnswer> {
    const head = requestHead(url, headers);
    const kept = idle.get(url.origin)?.pop();
    if (kept) {
      try {
        return await ask(kept);
      } catch (reason) {
        // It may have been closed while nobody looked; a new one tells whether that was all.
        if (signal?.aborted || !kept.isUnanswered()) throw reason;
      }
    }
    return ask(connect(url, options));

    async function ask(connection: Connection): Promise<RawAnswer> {
      try {
        return answerOf(connection, await connection.ask(head, signal), url.origin);
      } catch (reason) {
        connection.destroy();
        throw reason;
      }
    }
  }

  function answerOf(connection: Connection, head: Head, origin: string): RawAnswer {
    const { status, headers } = head;
    const length = readLength(head);
    return {
      status,
      headers,
      length,
      async pour(sink) {
        if (length === undefined) throw new Failure("bug", "an answer without length was poured");
        try {
          await connection.pour(length, sink);
        } catch (reason) {
          connection.destroy();
          throw reason;
        }
        keep(connection, origin, headers);
      },
      drop: () => connection.destroy(),
    };
  }

  function keep(connection: Connection, origin: string, headers: Head["headers"]): void {
    const others = idle.get(origin) ?? [];
    const isClosing = /\bclose\b/i.test(headers["connection"] ?? "");
    if (isClosing || others.length >= IDLE_CONNECTIONS_MAX || !connection.rest()) {
      connection.destroy();
      return;
    }
    idle.set(origin, [...others, connection]);
  }

  function close(): void {
    for (const connection of [...idle.values()].flat()) connection.destroy();
    idle.clear();
  }
}

interface Head {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

interface Connection {
  ask(head: string, signal: AbortSignal | undefined): Promise<Head>;
  pour(length: number, sink: Sink): Promise<void>;
  /** Whether not one byte of an answer came to the last question. */
  isUnanswered(): boolean;
  /** Lets go until the next question; false if it can no longer be used. */
  rest(): boolean;
  destroy(): void;
}

function connect(url: URL, options: RawDownloadOptions): Connection {
  const isSecure = url.protocol === "https:";
  const inbox = isSecure ? createPieces() : createPlainInbox();
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const port = Number(url.port || (isSecure ? 443 : 80));
  const onread = {
    buffer: Buffer.allocUnsafeSlow(isSecure ? TLS_BUFFER_BYTES : PLAIN_BUFFER_BYTES),
    callback: (count: number, buffer: Uint8Array) => receive(buffer.subarray(0, count)),
  };
  const socket = isSecure
    ? tls.connect({
        host,
        port,
        onread,
        ...(net.isIP(host) === 0 ? { servername: host } : {}),
        ...trustIn(options.ca),
      } as tls.ConnectionOptions)
    : net.connect({ host, port, onread } as net.NetConnectOpts);
  let headBytes: Buffer | undefined = Buffer.alloc(0);
  let isUnanswered = true;
  let broken: unknown;
  let wake: () => void = () => undefined;
  let unlisten: () => void = () => undefined;

  limitConnecting(socket, url, options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS);
  socket.setNoDelay(true);
  socket.setTimeout(options.idleTimeoutMs);
  socket.on("timeout", () => {
    // Silence while we are the slow side is no fault of theirs.
    if (isListening()) {
      socket.destroy(silentFailure(url));
    }
  });
  socket.on("error", (reason) => {
    broken ??= reason;
  });
  socket.on("close", () => {
    broken ??= new Failure("unavailable", `${url.host} closed the connection`);
    wake();
  });

  return {
    async ask(head, signal) {
      headBytes = Buffer.alloc(0);
      isUnanswered = true;
      inbox.begin();
      signal?.throwIfAborted();
      const stop = () => socket.destroy(signal?.reason);
      signal?.addEventListener("abort", stop, { once: true });
      unlisten = () => signal?.removeEventListener("abort", stop);
      socket.ref();
      socket.write(head, "latin1");
      socket.resume();
      // As a whole, not since its last byte: a header that trickles in would never end.
      const tooLate = setTimeout(() => socket.destroy(silentFailure(url)), options.idleTimeoutMs);
      try {
        return await readHead();
      } finally {
        clearTimeout(tooLate);
      }
    },

    async pour(length, sink) {
      let left = length;
      inbox.expect(length);
      while (left > 0) {
        const chunk = inbox.take();
        if (chunk === undefined) {
          if (broken !== undefined) throw broken;
          socket.resume();
          await woken();
          continue;
        }
        if (chunk.length > left) {
          throw new Failure("unavailable", `${url.host} sent more than it announced`);
        }
        left -= chunk.length;
        await sink(chunk);
        inbox.release(chunk);
      }
    },

    isUnanswered: () => isUnanswered,

    rest() {
      unlisten();
      if (broken !== undefined || inbox.take() !== undefined) return false;
      // Its end must be noticed while it rests, yet keep nobody alive.
      socket.resume();
      socket.unref();
      return true;
    },

    destroy() {
      unlisten();
      socket.destroy();
    },
  };

  async function readHead(): Promise<Head> {
    while (headBytes !== undefined) {
      const found = headBytes.indexOf(HEAD_END);
      if (found >= 0) {
        const text = headBytes.subarray(0, found).toString("latin1");
        inbox.push(headBytes.subarray(found + 4));
        headBytes = undefined;
        return parseHead(text, url);
      }
      if (headBytes.length > HEAD_BYTES_MAX) {
        socket.destroy();
        throw new Failure("unavailable", `${url.host} sent an endless header`);
      }
      if (broken !== undefined) throw broken;
      await woken();
    }
    throw new Failure("bug", "an answer was read twice");
  }

  /** What the socket calls with its own buffer; false stops it from filling the buffer again. */
  function receive(chunk: Uint8Array): boolean {
    isUnanswered = false;
    if (headBytes !== undefined) {
      const view = viewOf(chunk);
      const isWhole = headBytes.length === 0 && view.includes(HEAD_END);
      // The header may be followed by the first of the body, so stop until that is sorted out. A
      // plain socket does stop, and then even the first of the body need not be copied.
      headBytes = isWhole && !isSecure ? view : Buffer.concat([headBytes, chunk]);
      wake();
      return !headBytes.includes(HEAD_END);
    }
    const wantsMore = inbox.push(chunk);
    if (inbox.isReady()) wake();
    return wantsMore;
  }

  function isListening(): boolean {
    return headBytes !== undefined || !inbox.isReady();
  }

  function woken(): Promise<void> {
    return new Promise((resolve) => {
      wake = resolve;
    });
  }
}

function viewOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function requestHead(url: URL, headers: Readonly<Record<string, string>>): string {
  const lines = [`GET ${url.pathname}${url.search} HTTP/1.1`, `host: ${url.host}`];
  for (const [name, value] of Object.entries(headers)) {
    if (/[\r\n\0]/.test(value)) throw new Failure("invalid", `the header ${name} has a line break`);
    lines.push(`${name}: ${value}`);
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
}

function parseHead(text: string, url: URL): Head {
  const [first = "", ...lines] = text.split("\r\n");
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(first)?.[1]);
  if (Number.isNaN(status)) {
    throw new Failure("unavailable", `${url.host} does not speak HTTP/1.1`);
  }
  const headers: Record<string, string> = Object.create(null);
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon < 1) continue;
    const name = line.slice(0, colon).trim().toLowerCase();
    const value = line.slice(colon + 1).trim();
    // Said twice and differently, it says nothing: two lengths, no length.
    const earlier = headers[name];
    headers[name] = earlier === undefined || earlier === value ? value : `${earlier}, ${value}`;
  }
  return { status, headers };
}

function readLength({ headers }: Head): number | undefined {
  const isCoded = "transfer-encoding" in headers || "content-encoding" in headers;
  const text = headers["content-length"] ?? "";
  return isCoded || !/^\d{1,15}$/.test(text) ? undefined : Number(text);
}
