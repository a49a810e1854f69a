// Reads a file that somebody else may still be writing, from a byte on until its writer has ended.

import { open } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const CHUNK_BYTES = 64 * 1024;
const POLL_MS = 50;

export interface FollowOptions {
  readonly from: number;
  readonly signal: AbortSignal;
  /** Whether the last byte has been written. Asked before reading, so nothing slips in between. */
  readonly hasEnded: () => Promise<boolean>;
}

export async function* followOutput(
  path: string,
  { from, signal, hasEnded }: FollowOptions,
): AsyncIterable<Uint8Array> {
  let position = from;
  while (!signal.aborted) {
    const isLast = await hasEnded();
    for await (const chunk of readFrom(path, position)) {
      if (signal.aborted) return;
      position += chunk.length;
      yield chunk;
    }
    if (isLast) return;
    await pause(POLL_MS, signal);
  }
}

async function* readFrom(path: string, from: number): AsyncIterable<Uint8Array> {
  const file = await open(path, "r").catch((reason: NodeJS.ErrnoException) => {
    // Not written to yet, or removed together with its job.
    if (reason.code === "ENOENT") return undefined;
    throw reason;
  });
  if (!file) return;
  try {
    for (let position = from; ; ) {
      const { buffer, bytesRead } = await file.read(
        Buffer.alloc(CHUNK_BYTES),
        0,
        CHUNK_BYTES,
        position,
      );
      if (bytesRead === 0) return;
      position += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}

/** Sleeps, and wakes early without complaint when the caller has had enough. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch (reason) {
    if (!signal.aborted) throw reason;
  }
}
