// The directory that is the server: database, keys, logs, uploads, registry. One process at a time.

import { join } from "node:path";
import { Failure } from "@exclave/core";
import { lockFile, makePrivate, privateDirectory } from "@exclave/machine";

export interface DataDirectory {
  readonly database: string;
  readonly keys: string;
  /** Every version of the trust document. */
  readonly trust: string;
  readonly logs: string;
  readonly uploads: string;
  readonly registry: string;
  readonly adminToken: string;
  /** How long the record was when it was last shown. */
  readonly shownSize: string;
  /** Lets the next server have the directory. The system does so too when this process dies. */
  release(): void;
}

export async function claimDataDirectory(directory: string): Promise<DataDirectory> {
  await makePrivate(directory, { isDeep: false });
  const lock = lockFile(join(directory, "lock"));
  if (!lock) throw new Failure("conflict", `another server is already running on ${directory}`);
  const places = {
    keys: join(directory, "keys"),
    trust: join(directory, "trust"),
    logs: join(directory, "logs"),
    uploads: join(directory, "uploads"),
    registry: join(directory, "registry"),
  };
  for (const place of Object.values(places)) {
    // The registry holds no secrets and may hold millions of files: its door is enough.
    await (place === places.registry ? privateDirectory(place) : makePrivate(place));
  }
  return {
    ...places,
    database: join(directory, "exclave.db"),
    adminToken: join(directory, "admin-token"),
    shownSize: join(directory, "record-shown"),
    release: () => lock.release(),
  };
}
