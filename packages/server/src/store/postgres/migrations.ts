// The shape of the database, as numbered steps. A step that was released is never edited: the next
// one changes what it left.

import { Failure } from "@exclave/core";
import { type Kysely, sql } from "kysely";
import { OPEN_JOBS } from "../sql/database.ts";

/** A noun is its key, the columns it is looked up by, and the row itself as JSON. */
function documents(table: string, columns: readonly string[] = []): string[] {
  const extra = columns.map((column) => `${column} TEXT,`).join(" ");
  return [
    // Not as jsonb, which can hold neither every text nor the order of keys.
    `CREATE TABLE ${table} (ordinal BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      key TEXT NOT NULL UNIQUE, ${extra} body TEXT NOT NULL)`,
    ...columns.map((column) => `CREATE INDEX ${table}_${column} ON ${table} (${column}, ordinal)`),
  ];
}

export type Migration = readonly string[];

export const MIGRATIONS: readonly Migration[] = [
  [
    ...documents("agents", ["audience"]),
    ...documents("agent_checkpoints"),
    ...documents("apps", ["name"]),
    "CREATE UNIQUE INDEX apps_one_name ON apps (name)",
    ...documents("joins"),
    ...documents("tokens", ["hash"]),
    ...documents("installs", ["name"]),
    "CREATE UNIQUE INDEX installs_one_name ON installs (name)",
    ...documents("components", ["install"]),
    ...documents("jobs", ["audience", "install", "component", "release", "state"]),
    // Open jobs are few and ended ones are not: what is open is found without a walk through the history.
    `CREATE INDEX jobs_open_audience ON jobs (audience, ordinal) WHERE ${OPEN_JOBS}`,
    `CREATE INDEX jobs_open_install ON jobs (install, ordinal) WHERE ${OPEN_JOBS}`,
    "CREATE INDEX jobs_install_component ON jobs (install, component, ordinal)",
    ...documents("releases", ["app", "version", "state"]),
    "CREATE INDEX releases_app_version ON releases (app, version)",
    ...documents("builds"),
    ...documents("channels", ["app"]),
    ...documents("images", ["kind"]),
    ...documents("sources"),
    ...documents("trust"),
    `CREATE TABLE outbox (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      audience TEXT NOT NULL, seq BIGINT, job TEXT NOT NULL, body TEXT NOT NULL)`,
    "CREATE UNIQUE INDEX outbox_seq ON outbox (audience, seq)",
    "CREATE INDEX outbox_waiting ON outbox (audience, id) WHERE seq IS NULL",
    "CREATE INDEX outbox_job ON outbox (job)",
    `CREATE TABLE audit (seq BIGINT PRIMARY KEY, at BIGINT NOT NULL, actor TEXT NOT NULL,
      action TEXT NOT NULL, subject TEXT NOT NULL, details TEXT NOT NULL,
      prev_hash TEXT NOT NULL, hash TEXT NOT NULL)`,
    "CREATE INDEX audit_subject ON audit (subject, seq)",
    "CREATE TABLE issues (audience TEXT PRIMARY KEY, number BIGINT NOT NULL)",
    // One row: whoever writes holds it, and the server that came last has raised it.
    "CREATE TABLE turn (epoch BIGINT NOT NULL)",
    "INSERT INTO turn (epoch) VALUES (0)",
  ],
  documents("restatements"),
  [
    // Entries of the record that are committed and wait for their place in the chain. Rows come and go, so the
    // room of those that went is given back early.
    `CREATE TABLE audit_waiting (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at BIGINT NOT NULL,
      actor TEXT NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL, details TEXT NOT NULL)
      WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)`,
    // A server of before, which would append to the record by itself, is fenced off.
    "UPDATE turn SET epoch = epoch + 1",
  ],
  documents("shown_installs"),
  [
    // Servers that share the database. One whose row was taken away writes nothing until it has another.
    `CREATE TABLE servers (id TEXT PRIMARY KEY, version TEXT NOT NULL, directory TEXT NOT NULL, public_url TEXT,
      seen_at TIMESTAMPTZ NOT NULL, backend INT NOT NULL, backend_start TIMESTAMPTZ NOT NULL)
      WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500)`,
    // A server of before, which shares with nobody, is fenced off.
    "UPDATE turn SET epoch = epoch + 1",
  ],
];

/** Any number that no other program uses for its lock. */
const MIGRATION_LOCK = 0x65_78_63_6c;

export async function migrate<Tables>(
  db: Kysely<Tables>,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await sql`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`.execute(tx);
    await sql`CREATE TABLE IF NOT EXISTS migrations (version BIGINT NOT NULL)`.execute(tx);
    const { rows } = await sql<{ version: number }>`
      SELECT coalesce(max(version), 0) AS version FROM migrations`.execute(tx);
    const version = rows[0]?.version ?? 0;
    if (version > migrations.length) {
      throw new Failure(
        "conflict",
        `the database is of a newer version of this program (${version}, this one knows ${migrations.length})`,
      );
    }
    for (const step of migrations.slice(version)) {
      for (const statement of step) await sql.raw(statement).execute(tx);
    }
    if (version < migrations.length) {
      await sql`INSERT INTO migrations (version) VALUES (${migrations.length})`.execute(tx);
    }
  });
}
