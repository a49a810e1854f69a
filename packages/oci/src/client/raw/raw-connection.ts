// One connection that is asked again and again. It reads into one buffer of its own, and reads on only when the taker
// is done with what it got.

import { Failure } from "@exclave/core";
import { silentFailure } from "../registry-failure.ts";
import { createHeadBuffer, type Head, type HeadBuffer } from "./raw-head.ts";
import { createPieces, createPlainInbox } from "./raw-inbox.ts";
import { openSocket, type RawSocketOptions } from "./raw-socket.ts";

/** Takes bytes that are only good until the promise settles. */
export type Sink = (chunk: Uint8Array) => Promise<void>;

export interface RawConnection {
  ask(head: string, signal: AbortSignal | undefined): Promise<Head>;
  pour(length: number, sink: Sink): Promise<void>;
  /** Whether not one byte of an answer came to the last question. */
  isUnanswered(): boolean;
  /** Lets go until the next question; false if it can no longer be used. */
  rest(): boolean;
  destroy(): void;
}

export function connect(url: URL, options: RawSocketOptions): RawConnection {
  const { idleTimeoutMs } = options;
  const isSecure = url.protocol === "https:";
  const inbox = isSecure ? createPieces() : createPlainInbox();
  /** Set while an answer's head is read. */
  let heading: HeadBuffer | undefined;
  let isUnanswered = true;
  let unlisten: () => void = () => undefined;
  const { socket, broken, changed, wake } = openSocket(url, options, receive);

  socket.setTimeout(idleTimeoutMs);
  socket.on("timeout", () => {
    // Silence while we are the slow side is no fault of theirs.
    if (heading !== undefined || !inbox.isReady()) socket.destroy(silentFailure(url));
  });

  return { ask, pour, isUnanswered: () => isUnanswered, rest, destroy };

  async function ask(head: string, signal: AbortSignal | undefined): Promise<Head> {
    // A plain socket does stop when it is told to, so even the first of the body need not be copied.
    heading = createHeadBuffer(url, { isKept: !isSecure });
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
    const tooLate = setTimeout(() => socket.destroy(silentFailure(url)), idleTimeoutMs);
    try {
      return await readHead(heading);
    } finally {
      clearTimeout(tooLate);
    }
  }

  async function readHead(buffer: HeadBuffer): Promise<Head> {
    for (;;) {
      const found = buffer.take();
      if (found) {
        inbox.push(found.rest);
        heading = undefined;
        return found.head;
      }
      if (broken() !== undefined) throw broken();
      await changed();
    }
  }

  async function pour(length: number, sink: Sink): Promise<void> {
    let left = length;
    inbox.expect(length);
    while (left > 0) {
      const chunk = inbox.take();
      if (chunk === undefined) {
        if (broken() !== undefined) throw broken();
        socket.resume();
        await changed();
        continue;
      }
      if (chunk.length > left) {
        throw new Failure("unavailable", `${url.host} sent more than it announced`);
      }
      left -= chunk.length;
      await sink(chunk);
      inbox.release(chunk);
    }
  }

  function rest(): boolean {
    unlisten();
    if (broken() !== undefined || inbox.take() !== undefined) return false;
    // Its end must be noticed while it rests, yet keep nobody alive.
    socket.resume();
    socket.unref();
    return true;
  }

  function destroy(): void {
    unlisten();
    socket.destroy();
  }

  /** What the socket calls with its own buffer; false stops it from filling the buffer again. */
  function receive(chunk: Uint8Array): boolean {
    isUnanswered = false;
    if (heading !== undefined) {
      // The header may be followed by the first of the body, so stop until that is sorted out.
      const wantsMore = heading.push(chunk);
      wake();
      return wantsMore;
    }
    const wantsMore = inbox.push(chunk);
    if (inbox.isReady()) wake();
    return wantsMore;
  }
}
