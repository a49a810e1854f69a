// What an engine sends as a container's log: frames of a stream's number, three empty bytes, a length and
// so many bytes. Read one after the other they are the job's output, the same bytes each time.

import { Failure } from "@exclave/core";

const HEADER_BYTES = 8;
const FRAME_BYTES_MAX = 64 * 1024 * 1024;

/** The payload of every frame, without the first `skip` bytes of it. */
export async function* payloads(
  chunks: AsyncIterable<Uint8Array>,
  skip: number,
): AsyncIterable<Uint8Array> {
  let held = Buffer.alloc(0);
  let left = 0;
  let toSkip = skip;
  for await (const chunk of chunks) {
    held = held.length === 0 ? Buffer.from(chunk) : Buffer.concat([held, chunk]);
    while (held.length > 0) {
      if (left === 0) {
        if (held.length < HEADER_BYTES) break;
        left = held.readUInt32BE(4);
        if ((held[0] ?? 9) > 2 || left > FRAME_BYTES_MAX) {
          throw new Failure("unavailable", "the engine's log is not in the form it should have");
        }
        held = held.subarray(HEADER_BYTES);
        continue;
      }
      const payload = held.subarray(0, left);
      held = held.subarray(payload.length);
      left -= payload.length;
      const skipped = Math.min(toSkip, payload.length);
      toSkip -= skipped;
      if (payload.length > skipped) yield payload.subarray(skipped);
    }
  }
}
