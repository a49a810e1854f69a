// Sends a growing file to the disk while more of it arrives, so that at the end, when somebody waits,
// little is left to do.

import type { FileHandle } from "node:fs/promises";
import { canSyncNow, inSyncTurn } from "@exclave/machine";

export interface EarlySync {
  /** The file has this many bytes by now. */
  reached(size: number, handle: SyncHandle): void;
  /** All that was written is on disk, or this fails. */
  finish(handle: SyncHandle): Promise<void>;
}

/** It may be another one each time, as long as it is the same file. */
type SyncHandle = Pick<FileHandle, "datasync" | "sync">;

const EVERY_BYTES = 4 * 1024 * 1024;

export function createEarlySync(): EarlySync {
  let sent = 0;
  let sending: Promise<void> | undefined;
  // The system tells of a page it could not write once. The last sync would hear nothing of it.
  let failure: unknown;
  return { reached, finish };

  function reached(size: number, handle: SyncHandle): void {
    if (size - sent < EVERY_BYTES || sending || !canSyncNow()) return;
    sent = size;
    sending = send(handle);
  }

  async function send(handle: SyncHandle): Promise<void> {
    try {
      await inSyncTurn(() => handle.datasync());
    } catch (reason) {
      failure ??= reason;
    } finally {
      sending = undefined;
    }
  }

  async function finish(handle: SyncHandle): Promise<void> {
    await sending;
    if (failure !== undefined) throw failure;
    await inSyncTurn(() => handle.sync());
  }
}
