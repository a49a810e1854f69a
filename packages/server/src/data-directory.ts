// The directory that is the server: database, keys, logs, uploads, registry. One process at a time.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "@exclave/core";
import { lockFile } from "@exclave/oci";

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
  const lock = lockFile(join(directory, "lock"));
  if (!lock) throw new Failure("conflict", `another server is already running on ${directory}`);
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
    release: () => lock.release(),
  };
}
