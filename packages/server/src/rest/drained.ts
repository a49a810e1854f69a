// Waits until a reader has read: what is written beyond that is kept in memory, for as long as the reader likes.

import type { Writable } from "node:stream";

/** Resolves when there is room again, or when the reader has gone. */
export function drained(stream: Writable, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off("drain", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    stream.on("drain", done);
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
}
