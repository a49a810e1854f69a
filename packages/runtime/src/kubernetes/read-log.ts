// Reads a pod's log from a byte on. The API has no offsets: a byte is found again by the time of a line before it
// that was written down, and what was rotated away by that line's absence.

import type { JobName } from "@exclave/core";
import { outputGap } from "../job-runtime.ts";
import { CONTAINER } from "./job-order.ts";
import type { KubePod } from "./job-run.ts";
import { kubePath } from "./kube-client.ts";
import {
  type KubePlace,
  type LogMark,
  type LogMarks,
  podsPath,
  readRecord,
  writeRecord,
} from "./kube-place.ts";
import { type LogPiece, logPieces } from "./log-lines.ts";

/** A line is written down this often: well within what a kubelet keeps before it rotates. */
const MARK_BYTES = 4 * 1024 * 1024;

export interface ReadLog {
  readonly pod: KubePod;
  readonly from: number;
  readonly follow: boolean;
  readonly signal: AbortSignal;
  /** The kubelet gives it: from now on nothing that is said is missed. */
  readonly onOpen?: (() => void) | undefined;
}

export async function* readLog(
  place: KubePlace,
  name: JobName,
  { pod, from, follow, signal, onOpen }: ReadLog,
): AsyncIterable<Buffer> {
  const marks = await readRecord(place, name, "marks");
  const known = marks && (from >= marks.last.offset ? marks.last : marks.first);
  const query = {
    container: CONTAINER,
    timestamps: "true",
    ...(follow && { follow: "true" }),
    // In whole seconds: the lines of that second which came before are passed over.
    ...(known && { sinceTime: `${known.time.slice(0, 19)}${known.time.slice(29)}` }),
  };
  const path = kubePath(podsPath(place, `${pod.metadata.name}/log`), query);
  const pieces = logPieces(place.client.stream(path, signal, onOpen));
  const lines = createLineKeeper(place, name, marks);
  let position: number | undefined;
  for await (const piece of pieces) {
    let { bytes } = piece;
    if (position === undefined) {
      const found = known ? piece.lines.find(({ time }) => time >= known.time) : piece.lines[0];
      if (!found) continue;
      const begins = await lines.begin(known, found.time, from);
      bytes = bytes.subarray(found.at);
      await lines.keep(
        { bytes, lines: piece.lines.filter(({ at }) => at >= found.at) },
        begins,
        found.at,
      );
      position = begins;
    } else {
      await lines.keep(piece, position, 0);
    }
    const wanted = bytes.subarray(Math.max(0, Math.min(bytes.length, from - position)));
    position += bytes.length;
    if (wanted.length > 0) yield wanted;
  }
}

function createLineKeeper(place: KubePlace, name: JobName, before: LogMarks | undefined) {
  let marks = before;
  return { begin, keep };

  /** The byte at which the line that was found begins. A line that is missing was rotated away. */
  async function begin(known: LogMark | undefined, time: string, from: number): Promise<number> {
    if (known?.time === time) return known.offset;
    if (!known || !marks) {
      const first = { time, offset: 0 };
      marks = { first, last: first };
      await writeRecord(place, name, "marks", marks);
      return 0;
    }
    const { first, last } = marks;
    // Behind the newest line that is known: how much is missing nobody can say, but some is.
    const oldest =
      known === first && last.offset > from ? last.offset : Math.max(from, last.offset) + 1;
    if (known === last || oldest !== last.offset) {
      const left = { time, offset: oldest };
      await writeRecord(place, name, "marks", { first: left, last: left });
    }
    throw outputGap(name, from, oldest);
  }

  async function keep({ lines }: LogPiece, position: number, cut: number): Promise<void> {
    const line = lines.at(-1);
    if (!line || !marks) return;
    const offset = position + line.at - cut;
    if (offset - marks.last.offset < MARK_BYTES) return;
    marks = { ...marks, last: { time: line.time, offset } };
    await writeRecord(place, name, "marks", marks);
  }
}
