// The directory that is the server: database, keys, logs, uploads, registry. One process at a time.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Failure } from "@exclave/core";

export interface DataDirectory {
  readonly database: string;
  readonly keys: string;
  readonly logs: string;
  readonly uploads: string;
  readonly registry: string;
  readonly adminToken: string;
  /** Lets the next server have the directory. The system does so too when this process dies. */
  release(): void;
}

export async function claimDataDirectory(directory: string): Promise<DataDirectory> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const lock = takeLock(join(directory, "lock"), directory);
  const places = {
    keys: join(directory, "keys"),
    logs: join(directory, "logs"),
    uploads: join(directory, "uploads"),
    registry: join(directory, "registry"),
  };
  for (const place of Object.values(places)) await mkdir(place, { recursive: true, mode: 0o700 });
  return {
    ...places,
    database: join(directory, "exclave.db"),
    adminToken: join(directory, "admin-token"),
    release: () => lock.close(),
  };
}

/** SQLite's file lock belongs to the process: unlike a file with a pid in it, it cannot be left over. */
function takeLock(file: string, directory: string): DatabaseSync {
  const lock = new DatabaseSync(file);
  try {
    lock.exec("PRAGMA busy_timeout = 0");
    lock.exec("PRAGMA locking_mode = EXCLUSIVE");
    lock.exec("BEGIN EXCLUSIVE");
    return lock;
  } catch (cause) {
    lock.close();
    throw new Failure("conflict", `another server is already running on ${directory}`, { cause });
  }
}
