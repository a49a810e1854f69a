// The shape of the database, as numbered steps. A step that was released is never edited: the next
// one changes what it left.

import type { DatabaseSync } from "node:sqlite";
import { Failure } from "@exclave/core";
import { OPEN_JOBS } from "../sql/database.ts";

/** A noun is its key, the columns it is looked up by, and the row itself as JSON. */
function documents(table: string, columns: readonly string[] = []): string {
  const extra = columns.map((column) => `${column} TEXT,`).join(" ");
  const indexes = columns.map(
    (column) => `CREATE INDEX ${table}_${column} ON ${table} (${column}, ordinal);`,
  );
  return `CREATE TABLE ${table} (ordinal INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE,
    ${extra} body TEXT NOT NULL) STRICT; ${indexes.join(" ")}`;
}

type Migration = string | ((database: DatabaseSync) => void);

export const MIGRATIONS: readonly Migration[] = [
  [
    documents("agents", ["audience"]),
    documents("joins"),
    documents("tokens", ["hash"]),
    documents("installs"),
    documents("components", ["install"]),
    documents("jobs", ["audience", "install", "component", "release", "state"]),
    documents("releases", ["app", "version", "state"]),
    documents("builds"),
    documents("channels", ["app"]),
    documents("images", ["kind"]),
    documents("sources"),
    `CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, audience TEXT NOT NULL, seq INTEGER,
       job TEXT NOT NULL, body TEXT NOT NULL) STRICT;
     CREATE UNIQUE INDEX outbox_seq ON outbox (audience, seq);
     CREATE INDEX outbox_job ON outbox (job);`,
    `CREATE TABLE audit (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, actor TEXT NOT NULL,
       action TEXT NOT NULL, subject TEXT NOT NULL, details TEXT NOT NULL,
       prev_hash TEXT NOT NULL, hash TEXT NOT NULL) STRICT;
     CREATE INDEX audit_subject ON audit (subject, seq);`,
    "CREATE TABLE issues (audience TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT;",
  ].join("\n"),
  // Open jobs are few and ended ones are not: what is open is found without a walk through the history.
  `CREATE INDEX jobs_open_audience ON jobs (audience, ordinal) WHERE ${OPEN_JOBS};
   CREATE INDEX jobs_open_install ON jobs (install, ordinal) WHERE ${OPEN_JOBS};
   CREATE INDEX releases_app_version ON releases (app, version);`,
  documents("trust"),
  // Commands were signed when they were made, and are signed when they are sent.
  `UPDATE outbox SET body = json_remove(
     json_set(body, '$.payload', json_extract(body, '$.envelope.payload')), '$.envelope')
   WHERE json_extract(body, '$.envelope') IS NOT NULL;`,
  refuseNamedRows,
  [
    documents("apps", ["name"]),
    "CREATE UNIQUE INDEX apps_one_name ON apps (name);",
    "ALTER TABLE installs ADD COLUMN name TEXT;",
    "CREATE UNIQUE INDEX installs_one_name ON installs (name);",
  ].join("\n"),
  documents("agent_checkpoints"),
  documents("restatements"),
  // Why a job exists was called what it is about.
  `UPDATE jobs SET body = json_remove(
     json_set(body, '$.purpose', json_extract(body, '$.about')), '$.about')
   WHERE json_extract(body, '$.about') IS NOT NULL;`,
  // Components have the same name in every install: by name alone, those of one are looked for among all.
  "CREATE INDEX jobs_install_component ON jobs (install, component, ordinal);",
  documents("shown_installs"),
];

/**
 * Before this version apps and installs were known by their names, also to their agents and in every
 * manifest: such rows cannot be given ids that their agents know of.
 */
function refuseNamedRows(database: DatabaseSync): void {
  for (const table of ["installs", "releases"]) {
    if (database.prepare(`SELECT 1 FROM ${table} LIMIT 1`).get() === undefined) continue;
    throw new Failure(
      "conflict",
      "the database is of a version in which installs and apps had no ids; destroy its installs with that version and begin with a new directory",
    );
  }
}

export function migrate(database: DatabaseSync, migrations = MIGRATIONS): void {
  database.exec("BEGIN IMMEDIATE");
  try {
    const row = database.prepare("PRAGMA user_version").get() as { user_version: number };
    const version = row.user_version;
    if (version > migrations.length) {
      throw new Failure(
        "conflict",
        `the database is of a newer version of this program (${version}, this one knows ${migrations.length})`,
      );
    }
    for (const step of migrations.slice(version)) {
      if (typeof step === "string") database.exec(step);
      else step(database);
    }
    database.exec(`PRAGMA user_version = ${migrations.length}`);
    database.exec("COMMIT");
  } catch (reason) {
    database.exec("ROLLBACK");
    throw reason;
  }
}
