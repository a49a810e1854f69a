// The rows of servers that share a database: who is there, since when each was last heard, and whether its connection
// is still up.

import { Failure } from "@exclave/core";
import { GONE_AFTER_MS, type ServerSeen } from "./heartbeat-rules.ts";

export type Query = <Row extends object>(
  text: string,
  values?: readonly unknown[],
) => Promise<readonly Row[]>;

/** What servers on one database have in common, and what tells them apart for people. */
export interface ServerLabel {
  readonly version: string;
  /** Of the data directory: servers on one database share it. */
  readonly directory: string;
  /** How agents and people reach it, where that was said. */
  readonly publicUrl: string | undefined;
}

export interface OtherServer extends ServerSeen {
  readonly id: string;
  readonly directory: string;
  readonly public_url: string | null;
}

const SEEN = `SELECT id, directory, public_url,
  (extract(epoch FROM clock_timestamp() - seen_at) * 1000)::float8 AS "silentMs",
  EXISTS (SELECT FROM pg_stat_activity AS activity WHERE activity.pid = servers.backend
    AND activity.backend_start = servers.backend_start) AS "isConnected"
  FROM servers`;

/** On the connection that its heart beats on. */
export async function takePlace(query: Query, id: string, label: ServerLabel): Promise<void> {
  await query(
    `INSERT INTO servers (id, version, directory, public_url, seen_at, backend, backend_start)
     SELECT $1, $2, $3, $4, clock_timestamp(), pid, backend_start
     FROM pg_stat_activity WHERE pid = pg_backend_pid()
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, backend = excluded.backend,
       backend_start = excluded.backend_start`,
    [id, label.version, label.directory, label.publicUrl ?? null],
  );
}

/** Beats, takes away the rows of those that are gone if it may judge that, and says who has a row. */
export async function beat(
  query: Query,
  id: string,
  judges: boolean,
): Promise<readonly OtherServer[]> {
  await query("UPDATE servers SET seen_at = clock_timestamp() WHERE id = $1", [id]);
  if (judges) {
    await query(
      `DELETE FROM servers WHERE id <> $1
       AND seen_at < clock_timestamp() - $2 * interval '1 millisecond'`,
      [id, GONE_AFTER_MS],
    );
  }
  return query<OtherServer>(SEEN);
}

export function takeAway(id: string): [string, readonly string[]] {
  return ["DELETE FROM servers WHERE id = $1", [id]];
}

/** Refuses to be beside servers that this one does not fit: they have one data directory and one address. */
export async function fitIn(query: Query, label: ServerLabel): Promise<void> {
  const others = await query<OtherServer>(SEEN);
  const refusal = misfit(others, label);
  if (refusal) throw refusal;
}

/** One whose connection has ended is on its way out. Undefined when this one fits. */
export function misfit(
  others: readonly Pick<OtherServer, "isConnected" | "directory" | "public_url">[],
  label: Pick<ServerLabel, "directory" | "publicUrl">,
): Failure | undefined {
  for (const other of others.filter(({ isConnected }) => isConnected)) {
    if (other.directory !== label.directory) {
      return new Failure(
        "conflict",
        "another server runs on this database with another data directory: servers that share a database share their " +
          "data directory, so give both the same --data on a volume that both have",
      );
    }
    if (other.public_url === null || other.public_url !== (label.publicUrl ?? null)) {
      const theirs = other.public_url ?? "an address of its own";
      return new Failure(
        "conflict",
        `another server runs on this database and is reached at ${theirs}: servers that share a database are reached ` +
          "at one address, so give all of them the same --public-url",
      );
    }
  }
  return undefined;
}
