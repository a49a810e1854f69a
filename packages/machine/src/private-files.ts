// Files that hold secrets are their owner's alone, whatever the umask is and whatever an earlier
// version or a restored backup left behind.

import { chmodSync, closeSync, lstatSync, openSync } from "node:fs";
import { chmod, lstat, mkdir, opendir } from "node:fs/promises";
import { join } from "node:path";

/** Makes it if it is not there; either way nobody else gets in. */
export async function privateDirectory(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await chmod(directory, 0o700);
}

/**
 * The file is there and its owner's alone before a database is opened on it: SQLite gives what it
 * puts beside it (-wal, -shm) the same mode.
 */
export function privateDatabase(file: string): void {
  // One that is there is not opened here: closing it would let go of the locks this process has on it.
  if (!lstatSync(file, { throwIfNoEntry: false })) closeSync(openSync(file, "a", 0o600));
  for (const ending of ["", "-wal", "-shm"]) {
    const status = lstatSync(file + ending, { throwIfNoEntry: false });
    if (status?.isFile() && (status.mode & 0o077) !== 0) chmodSync(file + ending, 0o600);
  }
}

/**
 * Takes everybody else's rights from the directory and the files in it, by default also from what
 * lies deeper. Links are left alone, as is where they lead.
 */
export async function makePrivate(
  directory: string,
  { isDeep = true }: { readonly isDeep?: boolean } = {},
): Promise<void> {
  await privateDirectory(directory);
  for await (const entry of await opendir(directory)) {
    const path = join(directory, entry.name);
    if (entry.isDirectory() && isDeep) await makePrivate(path);
    else if (entry.isFile()) await takeFromOthers(path);
  }
}

async function takeFromOthers(file: string): Promise<void> {
  try {
    const { mode } = await lstat(file);
    if ((mode & 0o077) !== 0) await chmod(file, mode & 0o700);
  } catch (reason) {
    // Gone since it was listed.
    if ((reason as NodeJS.ErrnoException).code !== "ENOENT") throw reason;
  }
}
