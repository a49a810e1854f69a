// Job logs in an object store, under `<job>/<attempt>/`. An append writes one object, named by where it begins and ends,
// and no object ever grows. Many small ones are merged into larger ones beside the appends, and all into one when the log is
// complete. Any server can append, read and merge: there is nothing to lock, see `log-chunks.ts`.

import { createHash } from "node:crypto";
import { EventEmitter } from "node:events";
import { Failure, jobName } from "@exclave/core";
import type { ObjectStore } from "@exclave/oci/objects";
import { type JobLogs, LOG_BYTES_MAX, nextGrowth } from "./job-logs.ts";
import { chunkName, type LogChunk, planMerge, sizeOf } from "./log-chunks.ts";
import { createLogIndex } from "./log-index.ts";
import { createLogMerges } from "./log-merges.ts";

/** A piece that was merged away while it was to be read is looked for anew, so often. */
const LOOKS_MAX = 10;
const PIECE_BYTES = 2 * 1024 * 1024;

export interface ObjectJobLogsOptions {
  readonly logBytesMax?: number;
  readonly now?: () => number;
  readonly onError?: (reason: unknown) => void;
}

export function createObjectJobLogs(
  objects: ObjectStore,
  { logBytesMax = LOG_BYTES_MAX, now = Date.now, onError }: ObjectJobLogsOptions = {},
): JobLogs {
  const emitter = new EventEmitter().setMaxListeners(0);
  const index = createLogIndex(objects, now);
  const merges = createLogMerges({ objects, look: (log) => index.look(log), onError });
  const place = (job: string, attempt: number) => `${jobName(job, attempt)}/`;

  return {
    async sizeBytes(job, attempt, { by = "reader" } = {}) {
      const log = place(job, attempt);
      if (by === "new_writer") return sizeOf((await index.look(log)).cover);
      return sizeOf(
        (by === "writer" ? await index.lookAsWriter(log) : await index.lookLately(log)).cover,
      );
    },

    async append(job, attempt, offset, bytes) {
      const log = place(job, attempt);
      let before = await index.lookAsWriter(log);
      if (sizeOf(before.cover) !== offset) before = await index.look(log);
      const size = sizeOf(before.cover);
      if (size !== offset) {
        throw new Failure("conflict", `the log of ${job} ends at ${size}, not at ${offset}`);
      }
      if (bytes.length === 0) return;
      const kept = bytes.subarray(0, Math.max(0, logBytesMax - offset));
      const chunk = { start: offset, end: offset + bytes.length, keptBytes: kept.length };
      await objects.write(log + chunkName(chunk), kept);
      const hash = offset === 0 ? createHash("sha256") : before.hash;
      hash?.update(kept);
      const cover = [...before.cover, chunk];
      index.remember(log, { cover, seenAt: now(), appendedAt: now(), hash });
      emitter.emit(log);
      if (planMerge(cover).length > 0) merges.begin(log, planMerge);
    },

    read: (job, attempt, from) => read(place(job, attempt), from),

    async sha256(job, attempt) {
      const log = place(job, attempt);
      const { hash } = await index.lookLately(log);
      if (hash) return hash.copy().digest("hex");
      const anew = createHash("sha256");
      for await (const chunk of read(log, 0)) anew.update(chunk);
      return anew.digest("hex");
    },

    leftOutBytes: (sizeBytes) => Math.max(0, sizeBytes - logBytesMax),

    async remove(job, attempt) {
      const log = place(job, attempt);
      await merges.settled(log);
      index.forget(log);
      const keys: string[] = [];
      for await (const { key } of objects.list(log)) keys.push(key);
      for (const key of keys) await objects.remove(key);
    },

    seal: (job, attempt) => merges.begin(place(job, attempt), (cover) => cover),

    grown: (job, attempt, signal) => nextGrowth(emitter, place(job, attempt), signal),

    close: () => merges.close(),
  };

  async function* read(log: string, from: number): AsyncIterable<Uint8Array> {
    let at = from;
    let looks = 0;
    let { cover } = await index.lookLately(log);
    // To the length known now: what comes later is read by whoever asks again.
    const kept = cover.findLast(({ keptBytes }) => keptBytes > 0);
    const end = kept === undefined ? 0 : kept.start + kept.keptBytes;
    while (at < end) {
      const chunk = cover.find(({ start, keptBytes }) => start <= at && at < start + keptBytes);
      const length = Math.min(end - at, PIECE_BYTES);
      const bytes = chunk && (await readPiece(objects, log, chunk, { at, length }));
      if (!bytes) {
        if (++looks > LOOKS_MAX) throw new Failure("unavailable", `${log} has lost a piece`);
        index.forget(log);
        ({ cover } = await index.look(log));
        continue;
      }
      at += bytes.length;
      yield bytes;
    }
  }
}

function readPiece(
  objects: ObjectStore,
  log: string,
  chunk: LogChunk,
  { at, length }: { readonly at: number; readonly length: number },
): Promise<Buffer | undefined> {
  const from = at - chunk.start;
  const to = Math.min(from + length, chunk.keptBytes) - 1;
  return objects.read(log + chunkName(chunk), { from, to });
}
