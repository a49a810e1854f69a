// How a copy goes, for people: one line that changes on a terminal; elsewhere a line now and then.

import type { CopyProgress } from "../copy/copy.ts";

export interface ProgressScreen {
  readonly isTTY?: boolean | undefined;
  write(text: string): unknown;
}

const LINE_EVERY_MS = 5_000;

export function createProgress(
  screen: ProgressScreen,
  now: () => number,
): (progress: CopyProgress) => void {
  let saidAt = now();
  return ({ copiedBytes, skippedBytes, totalBytes, bytesPerSecond }) => {
    const done = copiedBytes + skippedBytes;
    const line = `${megabytes(done)} of ${megabytes(totalBytes)} MB, ${megabytes(bytesPerSecond)} MB/s`;
    if (screen.isTTY) {
      screen.write(`\r\x1b[K${line}${done === totalBytes ? "\n" : ""}`);
    } else if (now() - saidAt > LINE_EVERY_MS) {
      saidAt = now();
      screen.write(`${line}\n`);
    }
  };
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}
