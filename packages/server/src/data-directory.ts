// The directory that is the server: keys, logs, uploads, registry, and the database unless that is elsewhere. It
// belongs to one process; to several where they share a PostgreSQL database.

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Failure } from "@exclave/core";
import {
  createDurablySync,
  lockFile,
  makePrivate,
  privateDirectory,
  readIfThere,
  shareLock,
} from "@exclave/machine";

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
  /** By which servers on several machines know that they have the same one. */
  readonly id: string;
  /** Lets the next server have the directory. The system does so too when this process dies. */
  release(): void;
}

export async function claimDataDirectory(
  directory: string,
  { isShared = false }: { readonly isShared?: boolean } = {},
): Promise<DataDirectory> {
  await makePrivate(directory, { isDeep: false });
  const lock = (isShared ? shareLock : lockFile)(join(directory, "lock"));
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
    id: await idIn(join(directory, "directory-id")),
    release: () => lock.release(),
  };
}

/** Of several that start at once, one makes it. */
async function idIn(file: string): Promise<string> {
  if ((await readIfThere(file)) === undefined) createDurablySync(file, `${randomUUID()}\n`);
  return ((await readIfThere(file)) ?? "").trim();
}
