// A directory belongs to one registry at a time, because whoever starts sweeps away the uploads that
// the one before left behind.

import { join } from "node:path";
import { asFailure, Failure } from "@exclave/core";
import { diskFailure, type FileLock, lockFile, makeDirectory, shareLock } from "@exclave/machine";

/** Whoever has it has the directory. */
export type DirectoryClaim = FileLock;

/** Makes the directory if need be, and has it to itself from then on, or a share in it. */
async function claimDirectory(
  directory: string,
  take: (file: string) => FileLock | undefined,
): Promise<DirectoryClaim> {
  try {
    await makeDirectory(directory);
    const lock = take(join(directory, "lock"));
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
export function createOwnership(
  directory: string,
  prepare: () => Promise<void>,
  { isShared = false }: { readonly isShared?: boolean } = {},
): Ownership {
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
    const claim = isShared ? await claimIfAlone() : await claimDirectory(directory, lockFile);
    try {
      if (claim) await prepare();
    } catch (reason) {
      claim?.release();
      throw reason;
    }
    if (claim && !isShared) return claim;
    // Whoever comes in between finds nothing of this one that it could sweep away.
    claim?.release();
    return claimDirectory(directory, shareLock);
  }

  /** Undefined when others serve it already: what is unfinished there may be theirs. */
  async function claimIfAlone(): Promise<DirectoryClaim | undefined> {
    await makeDirectory(directory);
    return lockFile(join(directory, "lock"));
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
