// Job logs as files, one per attempt. A file's length is how much of that log was taken in. Bytes over
// the limit are not kept: the file only gets as long, with a hole, so that the agent can go on and end, and
// whoever reads it is told how much is missing.

import { createHash } from "node:crypto";
import { EventEmitter } from "node:events";
import { constants, createReadStream } from "node:fs";
import { type FileHandle, open, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Failure, jobName } from "@exclave/core";
import { createOpenFiles } from "./open-files.ts";

export interface JobLogs {
  sizeBytes(job: string, attempt: number, options?: SizeOptions): Promise<number>;
  /** Appends at exactly that offset, durable when it returns. */
  append(job: string, attempt: number, offset: number, bytes: Uint8Array): Promise<void>;
  read(job: string, attempt: number, from: number): AsyncIterable<Uint8Array>;
  sha256(job: string, attempt: number): Promise<string>;
  /** How many bytes of a log of that length are not kept. */
  leftOutBytes(sizeBytes: number): number;
  remove(job: string, attempt: number): Promise<void>;
  /** Resolves at the next append to that log, or when `signal` fires. */
  grown(job: string, attempt: number, signal: AbortSignal): Promise<void>;
  /** The log is complete: it may be put together for whoever reads it later. Never fails and never waits. */
  seal(job: string, attempt: number): void;
  /** Waits for what is still being put together. */
  close(): Promise<void>;
}

export interface SizeOptions {
  /**
   * Who asks. To a reader, a size of a moment ago is as good. A writer has appended all that came lately; one that is new
   * there asks what others have left.
   */
  readonly by?: "reader" | "writer" | "new_writer";
}

export const LOG_BYTES_MAX = 64 * 1024 * 1024;

export function createJobLogs(
  directory: string,
  { logBytesMax = LOG_BYTES_MAX }: { readonly logBytesMax?: number } = {},
): JobLogs {
  const emitter = new EventEmitter().setMaxListeners(0);
  const files = createOpenFiles({ flags: constants.O_RDWR | constants.O_CREAT });
  const place = (job: string, attempt: number) => join(directory, `${jobName(job, attempt)}.log`);

  return {
    sizeBytes,
    append,
    read,
    sha256,
    leftOutBytes,
    remove,
    grown: (job, attempt, signal) => nextGrowth(emitter, place(job, attempt), signal),
    seal: () => undefined,
    close: async () => undefined,
  };

  async function sizeBytes(job: string, attempt: number): Promise<number> {
    try {
      return (await stat(place(job, attempt))).size;
    } catch (reason) {
      if ((reason as NodeJS.ErrnoException).code === "ENOENT") return 0;
      throw reason;
    }
  }

  async function append(
    job: string,
    attempt: number,
    offset: number,
    bytes: Uint8Array,
  ): Promise<void> {
    const path = place(job, attempt);
    await files.use(path, async (file) => {
      // Not remembered from the last time: of two servers on one directory the other may have written since.
      const { size } = await file.stat();
      if (size !== offset) {
        throw new Failure("conflict", `the log of ${job} ends at ${size}, not at ${offset}`);
      }
      const kept = bytes.subarray(0, Math.max(0, logBytesMax - offset));
      await writeAll(file, kept, offset);
      if (kept.length < bytes.length) await lengthen(file, offset + bytes.length);
      await file.datasync();
      if (offset === 0) await syncDirectory(directory);
    });
    emitter.emit(path);
  }

  async function* read(job: string, attempt: number, from: number): AsyncIterable<Uint8Array> {
    const size = await sizeBytes(job, attempt);
    const end = Math.min(size, logBytesMax);
    // To the length known now: what comes later is read by whoever asks again.
    if (from < end) yield* createReadStream(place(job, attempt), { start: from, end: end - 1 });
  }

  function leftOutBytes(size: number): number {
    return Math.max(0, size - logBytesMax);
  }

  async function sha256(job: string, attempt: number): Promise<string> {
    const hash = createHash("sha256");
    for await (const chunk of read(job, attempt, 0)) hash.update(chunk);
    return hash.digest("hex");
  }

  async function remove(job: string, attempt: number): Promise<void> {
    await files.forget(place(job, attempt));
    await rm(place(job, attempt), { force: true });
  }
}

/** Resolves when that is emitted next, or when `signal` fires. */
export function nextGrowth(
  emitter: EventEmitter,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      emitter.off(name, done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    emitter.on(name, done);
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
}

/**
 * Written to its place and never at the end: of two servers, one of which has yet to notice that the agent has moved to
 * the other, both write the same bytes to the same place.
 */
async function writeAll(file: FileHandle, bytes: Uint8Array, offset: number): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    at += (await file.write(bytes, at, bytes.length - at, offset + at)).bytesWritten;
  }
}

async function lengthen(file: FileHandle, toBytes: number): Promise<void> {
  const { size } = await file.stat();
  if (size < toBytes) await file.truncate(toBytes);
}

/** A new file is there after a power cut only if its directory was synced too. */
async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
