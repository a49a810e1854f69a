// Downloads over plain sockets. A connection reads into one buffer of its own, again and again, and
// reads on only when the taker is done with what it got: no allocation per chunk, and exactly as
// much in memory as one buffer holds, however large the blob. (Measured: node:http takes 2 to 3
// times the processor time for the same bytes.) Only what blobs need of HTTP/1.1 is here: a GET, and
// an answer that says its length. Anything else is left to the caller to ask for in another way.

import { Failure } from "@exclave/core";
import { connect, type RawConnection, type Sink } from "./raw-connection.ts";
import { type Head, readLength, requestHead } from "./raw-head.ts";
import type { RawSocketOptions } from "./raw-socket.ts";

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

const IDLE_CONNECTIONS_MAX = 8;

export function createRawDownloads(options: RawSocketOptions): RawDownloads {
  const idle = new Map<string, RawConnection[]>();

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

    async function ask(connection: RawConnection): Promise<RawAnswer> {
      try {
        return answerOf(connection, await connection.ask(head, signal), url.origin);
      } catch (reason) {
        connection.destroy();
        throw reason;
      }
    }
  }

  function answerOf(connection: RawConnection, head: Head, origin: string): RawAnswer {
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

  function keep(connection: RawConnection, origin: string, headers: Head["headers"]): void {
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
