// Gives what a job says, from a byte on, until it has ended and all was given: from its pod while there is one, and
// afterwards from what was kept when it was stopped.

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure, type JobName } from "@exclave/core";
import { outputGap } from "../job-runtime.ts";
import { endFor } from "./end-job.ts";
import { type Look, look } from "./inspect-job.ts";
import { hasStarted, startErrorOf } from "./job-run.ts";
import { refusedStatus } from "./kube-client.ts";
import { type KubePlace, readRecord, type Sent, spoolPath, writeRecord } from "./kube-place.ts";
import { readLog } from "./read-log.ts";

const LOOK_MS = 200;

export async function* followPod(
  place: KubePlace,
  name: JobName,
  { from, sent, signal }: { from: number; sent: Sent | undefined; signal: AbortSignal },
): AsyncIterable<Uint8Array> {
  const notes = Buffer.from(sent?.notes ?? "");
  const bytesMax = (sent?.logBytesMax ?? Number.POSITIVE_INFINITY) + place.allowanceBytes;
  if (from < notes.length) yield notes.subarray(from);
  let position = Math.max(0, from - notes.length);
  let wasFollowed = false;
  while (!signal.aborted) {
    // Asked before reading, so that nothing slips in between.
    const seen = await look(place, name);
    const isLast = seen.run.kind === "exited" || seen.run.kind === "absent";
    try {
      for await (const bytes of said(place, name, seen, { position, isLast, signal })) {
        position += bytes.length;
        yield bytes;
        if (signal.aborted) return;
        if (position > bytesMax) {
          const because = `it printed ${position} bytes, with a log of ${sent?.logBytesMax} at most`;
          await endFor(place, name, { kind: "over-limit", because });
        }
      }
      if (isLast) {
        if (!wasFollowed && !seen.pod) await mustBeWhole(place, name, seen, position, notes.length);
        return;
      }
      wasFollowed = seen.pod !== undefined && hasStarted(seen.pod);
    } catch (reason) {
      if (signal.aborted) return;
      // Deleted or not begun since it was looked at, or its kubelet is away: looked at again.
      if (!isPassing(reason)) throw shifted(reason, name, notes.length);
      if (isLast && refusedStatus(reason) !== 404) throw reason;
    }
    await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
  }
}

async function* said(
  place: KubePlace,
  name: JobName,
  { pod }: Look,
  { position, isLast, signal }: { position: number; isLast: boolean; signal: AbortSignal },
): AsyncIterable<Buffer> {
  if (pod && hasStarted(pod)) {
    let wasSilent = position === 0;
    for await (const bytes of readLog(place, name, {
      pod,
      from: position,
      follow: !isLast,
      signal,
    })) {
      wasSilent = false;
      yield bytes;
    }
    const error = isLast && wasSilent ? startErrorOf(pod) : undefined;
    if (error !== undefined) yield Buffer.from(`exclave: ${error}\n`);
  } else if (isLast && (await spooledBytes(place, name)) > position) {
    yield* createReadStream(spoolPath(place, name), { start: position }) as AsyncIterable<Buffer>;
  }
}

/** What a pod said that vanished unread went with it: said once, as a gap, and then it is over. */
async function mustBeWhole(
  place: KubePlace,
  name: JobName,
  { run }: Look,
  position: number,
  notesBytes: number,
): Promise<void> {
  const isLost =
    run.kind === "exited" && (run.exit.kind === "lost" || run.exit.kind === "deadline");
  if (!isLost || (await spooledBytes(place, name)) >= 0) return;
  const marks = await readRecord(place, name, "marks");
  if (marks?.goneAt !== undefined && position >= marks.goneAt) return;
  const goneAt = position + 1;
  const nowhere = { time: "", offset: goneAt };
  await writeRecord(place, name, "marks", { first: nowhere, last: nowhere, goneAt });
  throw outputGap(name, position + notesBytes, goneAt + notesBytes);
}

async function spooledBytes(place: KubePlace, name: JobName): Promise<number> {
  return (await stat(spoolPath(place, name)).catch(() => undefined))?.size ?? -1;
}

function isPassing(reason: unknown): boolean {
  const status = refusedStatus(reason);
  if (status === 404 || status === 400) return true;
  return reason instanceof Failure
    ? reason.code === "unavailable" || reason.code === "rate_limited"
    : (reason as NodeJS.ErrnoException).code === "ECONNRESET";
}

/** Gaps are counted by whoever reads, to whom the notes are part of the output. */
function shifted(reason: unknown, name: JobName, notesBytes: number): unknown {
  if (notesBytes === 0 || !(reason instanceof Failure)) return reason;
  const { oldestOutput: oldest } = reason.details;
  return typeof oldest === "number" ? outputGap(name, notesBytes, oldest + notesBytes) : reason;
}
