// Log frames that wait together, as few pieces as they make: what follows on of one job is written, synced and
// acknowledged at once.

import type { LogFrame } from "@exclave/api";

export interface JoinedLogs {
  /** Whether it was taken: it follows on, or is of a job that has none here yet. */
  add(frame: LogFrame): boolean;
  frames(): LogFrame[];
}

interface Piece {
  readonly first: LogFrame;
  readonly parts: Uint8Array[];
  end: number;
}

export function createJoinedLogs(): JoinedLogs {
  const pieces = new Map<string, Piece>();

  return {
    add(frame) {
      const name = `${frame.job} ${frame.attempt}`;
      const piece = pieces.get(name);
      if (!piece) {
        pieces.set(name, {
          first: frame,
          parts: [frame.bytes],
          end: frame.offset + frame.bytes.length,
        });
        return true;
      }
      // One that is sent again, or too early, is judged by itself once those before it are on disk.
      if (frame.offset !== piece.end) return false;
      piece.parts.push(frame.bytes);
      piece.end += frame.bytes.length;
      return true;
    },
    frames: () =>
      [...pieces.values()].map(({ first, parts }) =>
        parts.length === 1 ? first : { ...first, bytes: Buffer.concat(parts) },
      ),
  };
}
