// A lock that belongs to a process: unlike a file with a pid in it, it cannot be left over.

import { DatabaseSync } from "node:sqlite";
import { privateDatabase } from "./private-files.ts";

export interface FileLock {
  /** The system does so too when the process dies. */
  release(): void;
}

const SQLITE_BUSY = 5;

/** Undefined while another process has it. The file is made if need be, and stays. */
export function lockFile(file: string): FileLock | undefined {
  // SQLite locks its files through the operating system, which Node alone has no call for.
  privateDatabase(file);
  const lock = new DatabaseSync(file);
  try {
    lock.exec("PRAGMA busy_timeout = 0");
    // Nothing is ever written, so a journal would only be one more file.
    lock.exec("PRAGMA journal_mode = MEMORY");
    lock.exec("BEGIN EXCLUSIVE");
  } catch (reason) {
    lock.close();
    if ((reason as { errcode?: number }).errcode === SQLITE_BUSY) return undefined;
    throw reason;
  }
  return { release: () => lock.close() };
}
