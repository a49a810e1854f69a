// Sends a growing file to the disk while more of it arrives, so that at the end, when somebody waits,
// little is left to do.

import type { FileHandle } from "node:fs/promises";

export interface EarlySync {
  /** The file has this many bytes by now. */
  reached(size: number): void;
  /** All that was written is on disk, or this fails. */
  finish(): Promise<void>;
}

const EVERY_BYTES = 4 * 1024 * 1024;

/** Each holds one of the four threads that file calls have; one is left for everything else. */
const AT_ONCE_MAX = 3;
let running = 0;

export function syncEarly(handle: Pick<FileHandle, "datasync" | "sync">): EarlySync {
  let sent = 0;
  let sending: Promise<void> | undefined;
  // The system tells of a page it could not write once. The last sync would hear nothing of it.
  let failure: unknown;
  return { reached, finish };

  function reached(size: number): void {
    if (size - sent < EVERY_BYTES || sending || running === AT_ONCE_MAX) return;
    sent = size;
    sending = send();
  }

  async function send(): Promise<void> {
    running += 1;
    try {
      await handle.datasync();
    } catch (reason) {
      failure ??= reason;
    } finally {
      running -= 1;
      sending = undefined;
    }
  }

  async function finish(): Promise<void> {
    await sending;
    if (failure !== undefined) throw failure;
    await handle.sync();
  }
}
