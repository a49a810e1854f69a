// A directory belongs to one registry at a time, because whoever starts sweeps away the uploads that
// the one before left behind.

import { join } from "node:path";
import { asFailure, Failure } from "@exclave/core";
import { diskFailure, type FileLock, lockFile, makeDirectory } from "@exclave/machine";

/** Whoever has it has the directory. */
export type DirectoryClaim = FileLock;

/** Makes the directory if need be, and has it to itself from then on. */
export async function claimDirectory(directory: string): Promise<DirectoryClaim> {
  try {
    await makeDirectory(directory);
    const lock = lockFile(join(directory, "lock"));
    if (lock) return lock;
  } catch (reason) {
    throw explain(directory, reason);
  }
  throw new Failure("conflict", `another registry serves this directory: ${directory}`);
}

function explain(directory: string, cause: unknown): unknown {
  const { code } = cause as NodeJS.ErrnoException;
  if (code === "EEXIST" || code === "ENOTDIR") {
    return new Failure("invalid", `${directory} is not a directory`, { cause });
  }
  const failure = diskFailure(cause);
  if (failure instanceof Failure) return failure;
  const { message } = asFailure(cause);
  return new Failure("unavailable", `cannot keep content in ${directory}: ${message}`, { cause });
}
