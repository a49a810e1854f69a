// A lock that belongs to a process: unlike a file with a pid in it, it cannot be left over.

import { DatabaseSync } from "node:sqlite";
import { privateDatabase } from "./private-files.ts";

export interface FileLock {
  /** The system does so too when the process dies. */
  release(): void;
}

const SQLITE_BUSY = 5;

/** Undefined while another process has it, or shares it. The file is made if need be, and stays. */
export function lockFile(file: string): FileLock | undefined {
  return lock(file, "BEGIN EXCLUSIVE");
}

/** Undefined while a process has it to itself. Others that share it are no hindrance. */
export function shareLock(file: string): FileLock | undefined {
  // A transaction that has read keeps its share of the lock until it ends.
  return lock(file, "BEGIN; SELECT count(*) FROM sqlite_schema");
}

function lock(file: string, take: string): FileLock | undefined {
  // SQLite locks its files through the operating system, which Node alone has no call for.
  privateDatabase(file);
  const held = new DatabaseSync(file);
  try {
    held.exec("PRAGMA busy_timeout = 0");
    // Nothing is ever written, so a journal would only be one more file.
    held.exec("PRAGMA journal_mode = MEMORY");
    held.exec(take);
  } catch (reason) {
    held.close();
    if ((reason as { errcode?: number }).errcode === SQLITE_BUSY) return undefined;
    throw reason;
  }
  return { release: () => held.close() };
}
