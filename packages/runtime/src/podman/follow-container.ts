// Reads what a container says, from a byte on, until it has ended and all was given. The engine keeps the
// log for as long as it keeps the container and gives the same bytes each time, so a byte is found again
// by counting.

import { setTimeout as sleep } from "node:timers/promises";
import { Failure, type JobName } from "@exclave/core";
import { enginePath, LABELS, type Labels, payloads } from "@exclave/machine/engine";
import { endFor } from "./end-container.ts";
import { isOver } from "./inspect-container.ts";
import { engineName, type PodmanPlace } from "./podman-place.ts";

const LOOK_MS = 50;
/** Beyond the log: outputs, artifacts, and the envelope of each line. The runner stays within it. */
const OUTPUT_ALLOWANCE_BYTES = 64 * 1024 * 1024;

export async function* followContainer(
  place: PodmanPlace,
  name: JobName,
  { from, labels, signal }: { from: number; labels: Labels; signal: AbortSignal },
): AsyncIterable<Uint8Array> {
  const notes = Buffer.from(labels[LABELS.notes] ?? "");
  const logBytesMax = Number(labels[LABELS.logBytesMax] || Number.POSITIVE_INFINITY);
  if (from < notes.length) yield notes.subarray(from);
  let position = Math.max(0, from - notes.length);
  while (!signal.aborted) {
    // Asked before reading, so that nothing slips in between; what was followed to its end is read once
    // more, because an engine may stop following a moment before it has written the last line.
    const isLast = await isOver(place, name);
    for await (const bytes of log(place, name, { from: position, follow: !isLast, signal })) {
      position += bytes.length;
      yield bytes;
      if (signal.aborted) return;
      if (position > logBytesMax + OUTPUT_ALLOWANCE_BYTES) {
        const because = `it printed ${position} bytes, with a log of ${logBytesMax} at most`;
        await endFor(place, name, { kind: "over-limit", because }, 0);
      }
    }
    if (isLast) return;
    await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
  }
}

async function* log(
  place: PodmanPlace,
  name: JobName,
  { from, follow, signal }: { from: number; follow: boolean; signal: AbortSignal },
): AsyncIterable<Uint8Array> {
  const query = { stdout: 1, stderr: 1, follow: follow ? 1 : 0 };
  const path = enginePath(`/containers/${engineName(place, name)}/logs`, query);
  try {
    yield* payloads(place.engine.stream(path, signal), from);
  } catch (reason) {
    const isRemoved = reason instanceof Failure && reason.details.status === 404;
    if (!signal.aborted && !isRemoved) throw reason;
  }
}
