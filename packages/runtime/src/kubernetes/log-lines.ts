// A pod's log as the API gives it with timestamps: each line after the time it was written at. Takes the times
// off and says where each line begins, so that a place in the log is found again by its time.

import { Failure } from "@exclave/core";

export interface LogPiece {
  /** As the job wrote them. */
  readonly bytes: Buffer;
  /** The lines that begin in it: when each was written, and at which of these bytes. */
  readonly lines: readonly { readonly time: string; readonly at: number }[];
}

const NEWLINE = 0x0a;
const SPACE = 0x20;
const TIME_BYTES_MAX = 40;
const TIME = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{9}(Z|[+-][0-9]{2}:[0-9]{2})$/;

/** One piece for each chunk that comes. */
export async function* logPieces(stream: AsyncIterable<Uint8Array>): AsyncIterable<LogPiece> {
  /** What is there of the time of a line that begins; undefined in the middle of a line. */
  let head: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of stream) {
    const parts: Buffer[] = [];
    const lines: { time: string; at: number }[] = [];
    let length = 0;
    let rest = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    while (rest.length > 0) {
      if (head !== undefined) {
        const space = rest.indexOf(SPACE);
        head = Buffer.concat([head, space < 0 ? rest : rest.subarray(0, space)]);
        if (space < 0 && head.length <= TIME_BYTES_MAX) break;
        lines.push({ time: timeOf(head), at: length });
        rest = rest.subarray(space + 1);
        head = undefined;
      }
      const newline = rest.indexOf(NEWLINE);
      const bytes = newline < 0 ? rest : rest.subarray(0, newline + 1);
      parts.push(bytes);
      length += bytes.length;
      rest = rest.subarray(bytes.length);
      if (newline >= 0) head = Buffer.alloc(0);
    }
    if (length > 0 || lines.length > 0) yield { bytes: Buffer.concat(parts), lines };
  }
}

/** A kubelet that cannot read a log says so in the place of the log. */
function timeOf(head: Buffer): string {
  const text = head.toString("latin1");
  if (TIME.test(text)) return text;
  throw new Failure("unavailable", "the kubelet does not give the log of the pod");
}
