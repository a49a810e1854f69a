// Makes one object of several that follow each other in a log, beside whoever appends and reads. The new one is whole before
// the old ones are removed, and whatever a crash leaves of both is removed by the next merge.

import { type ObjectStore, readPieces } from "@exclave/oci/objects";
import { chunkName, coverOf, type LogChunk, parseChunk } from "./log-chunks.ts";

export interface LogMerges {
  /** Begins one unless one is under way; never fails. `plan` picks pieces that follow each other. */
  begin(log: string, plan: (cover: readonly LogChunk[]) => readonly LogChunk[]): void;
  /** Resolves when none of that log is under way. */
  settled(log: string): Promise<void>;
  /** Begins no more, and waits for those under way. */
  close(): Promise<void>;
}

export interface LogMergesOptions {
  readonly objects: ObjectStore;
  /** Told when the pieces of a log are others than before. */
  readonly look: (log: string) => Promise<unknown>;
  readonly onError?: ((reason: unknown) => void) | undefined;
}

type Plan = Parameters<LogMerges["begin"]>[1];

/** Further ones wait: to merge is never urgent. */
const TOGETHER_MAX = 2;
const WAITING_MAX = 1_000;

export function createLogMerges({ objects, look, onError }: LogMergesOptions): LogMerges {
  const waiting = new Map<string, Plan>();
  const running = new Map<string, Promise<void>>();
  let isClosed = false;

  return {
    begin(log, plan) {
      if (isClosed || waiting.size >= WAITING_MAX) return;
      waiting.set(log, plan);
      startNext();
    },
    async settled(log) {
      waiting.delete(log);
      await running.get(log);
    },
    async close() {
      isClosed = true;
      waiting.clear();
      await Promise.all(running.values());
    },
  };

  function startNext(): void {
    for (const [log, plan] of waiting) {
      if (running.size >= TOGETHER_MAX) return;
      if (running.has(log)) continue;
      waiting.delete(log);
      const merging = merge(log, plan)
        .catch((reason: unknown) => onError?.(reason))
        .finally(() => {
          running.delete(log);
          startNext();
        });
      running.set(log, merging);
    }
  }

  async function merge(log: string, plan: Plan): Promise<void> {
    const cover = coverOf(await chunksOf(objects, log));
    const chosen = plan(cover);
    if (chosen.length > 1) await writeMerged(log, chosen);
    const all = await chunksOf(objects, log);
    const needed = new Set(coverOf(all));
    for (const chunk of all) if (!needed.has(chunk)) await objects.remove(log + chunkName(chunk));
    await look(log);
  }

  async function writeMerged(log: string, chunks: readonly LogChunk[]): Promise<void> {
    const [start, end] = [chunks[0]?.start ?? 0, chunks.at(-1)?.end ?? 0];
    // A piece can begin before the one before it ends.
    const parts = chunks.map((chunk, index) => {
      const from = Math.max(chunk.start, chunks[index - 1]?.end ?? 0) - chunk.start;
      return { key: log + chunkName(chunk), from, to: chunk.keptBytes - 1 };
    });
    const sizeBytes = parts.reduce((sum, { from, to }) => sum + Math.max(0, to - from + 1), 0);
    const upload = objects.upload(log + chunkName({ start, end }), { sizeBytes });
    try {
      for (const { key, from, to } of parts) {
        for await (const piece of readPieces(objects, key, { from, to })) await upload.write(piece);
      }
      await upload.complete();
    } catch (reason) {
      await upload.abort();
      throw reason;
    }
  }
}

export async function chunksOf(objects: ObjectStore, log: string): Promise<LogChunk[]> {
  const found: LogChunk[] = [];
  for await (const { key, sizeBytes } of objects.list(log)) {
    const chunk = parseChunk(key.slice(log.length), sizeBytes);
    if (chunk) found.push(chunk);
  }
  return found;
}
