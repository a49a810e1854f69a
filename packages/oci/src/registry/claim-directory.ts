// A directory belongs to one registry at a time, because whoever starts sweeps away the uploads that
// the one before left behind.

import { join } from "node:path";
import { asFailure, Failure } from "@exclave/core";
import { diskFailure, type FileLock, lockFile, makeDirectory } from "@exclave/machine";

/** Whoever has it has the directory. */
export type DirectoryClaim = FileLock;

/** Makes the directory if need be, and has it to itself from then on. */
async function claimDirectory(directory: string): Promise<DirectoryClaim> {
  try {
    await makeDirectory(directory);
    const lock = lockFile(join(directory, "lock"));
    if (lock) return lock;
  } catch (reason) {
    throw explain(directory, reason);
  }
  throw new Failure("conflict", `another registry serves this directory: ${directory}`);
}

/** A directory that is claimed when it is first needed. */
export interface Ownership {
  /** Fails while another registry has the directory; who asks again may find it free. */
  take(): Promise<void>;
  /** The claim, if there is one or it is just being made. */
  settled(): Promise<DirectoryClaim | undefined>;
}

/** `prepare` makes the directory ready for its new owner. */
export function createOwnership(directory: string, prepare: () => Promise<void>): Ownership {
  let claimed: Promise<DirectoryClaim> | undefined;

  return {
    async take() {
      claimed ??= takeOver();
      const mine = claimed;
      try {
        await mine;
      } catch (reason) {
        // Whoever has the directory may be gone the next time.
        if (claimed === mine) claimed = undefined;
        throw reason;
      }
    },
    settled: async () => claimed?.catch(() => undefined),
  };

  async function takeOver(): Promise<DirectoryClaim> {
    const claim = await claimDirectory(directory);
    try {
      await prepare();
      return claim;
    } catch (reason) {
      claim.release();
      throw reason;
    }
  }
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
