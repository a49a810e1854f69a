// A piece of a job's log on the link, as bytes.

import { JobId } from "@exclave/core";
import { z } from "zod";

export interface LogFrame {
  readonly job: string;
  readonly attempt: number;
  readonly offset: number;
  readonly bytes: Uint8Array;
}

const LOG_FRAME = 1;
const ENCODER = new TextEncoder();
const DECODER = new TextDecoder();

/** `u8 1 | u16 header length | header JSON | bytes`. */
export function encodeLogFrame({ job, attempt, offset, bytes }: LogFrame): Uint8Array {
  const header = ENCODER.encode(JSON.stringify({ job, attempt, offset }));
  const frame = new Uint8Array(3 + header.length + bytes.length);
  frame[0] = LOG_FRAME;
  new DataView(frame.buffer).setUint16(1, header.length);
  frame.set(header, 3);
  frame.set(bytes, 3 + header.length);
  return frame;
}

const LogHeader = z.object({
  job: JobId,
  attempt: z.int().positive(),
  offset: z.int().nonnegative(),
});

export function decodeLogFrame(frame: Uint8Array): LogFrame | undefined {
  if (frame.length < 3 || frame[0] !== LOG_FRAME) return undefined;
  const length = new DataView(frame.buffer, frame.byteOffset).getUint16(1);
  if (3 + length > frame.length) return undefined;
  try {
    const text = DECODER.decode(frame.subarray(3, 3 + length));
    const header = LogHeader.safeParse(JSON.parse(text)).data;
    return header && { ...header, bytes: frame.subarray(3 + length) };
  } catch {
    return undefined;
  }
}
