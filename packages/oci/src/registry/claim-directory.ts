// A directory belongs to one registry at a time, because whoever starts sweeps away the uploads that
// the one before left behind.

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { asFailure, Failure } from "@exclave/core";
import { diskFailure, makeDirectory } from "../durable-files.ts";

export interface DirectoryClaim {
  /** Lets the next registry have the directory. The system does so too when this process dies. */
  release(): void;
}

/** Makes the directory if need be, and has it to itself from then on. */
export async function claimDirectory(directory: string): Promise<DirectoryClaim> {
  try {
    await makeDirectory(directory);
    const lock = takeLock(join(directory, "lock"));
    return { release: () => lock.close() };
  } catch (reason) {
    throw explain(directory, reason);
  }
}

/** SQLite's file lock belongs to the process: unlike a file with a pid in it, it cannot be left over. */
function takeLock(file: string): DatabaseSync {
  const lock = new DatabaseSync(file);
  try {
    lock.exec("PRAGMA busy_timeout = 0");
    // Nothing is ever written, so a journal would only be one more file.
    lock.exec("PRAGMA journal_mode = MEMORY");
    lock.exec("BEGIN EXCLUSIVE");
    return lock;
  } catch (reason) {
    lock.close();
    throw reason;
  }
}

const SQLITE_BUSY = 5;

function explain(directory: string, cause: unknown): unknown {
  const { code, errcode } = cause as NodeJS.ErrnoException & { errcode?: number };
  if (errcode === SQLITE_BUSY) {
    return new Failure("conflict", `another registry serves this directory: ${directory}`, {
      cause,
    });
  }
  if (code === "EEXIST" || code === "ENOTDIR") {
    return new Failure("invalid", `${directory} is not a directory`, { cause });
  }
  const failure = diskFailure(cause);
  if (failure instanceof Failure) return failure;
  const { message } = asFailure(cause);
  return new Failure("unavailable", `cannot keep content in ${directory}: ${message}`, { cause });
}
