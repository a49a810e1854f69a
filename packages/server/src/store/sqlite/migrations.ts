// The shape of the database, as numbered steps. A step that was released is never edited: the next
// one changes what it left.

import type { DatabaseSync } from "node:sqlite";
import { Failure } from "@exclave/core";

/** A noun is its key, the columns it is looked up by, and the row itself as JSON. */
function documents(table: string, columns: readonly string[] = []): string {
  const extra = columns.map((column) => `${column} TEXT,`).join(" ");
  const indexes = columns.map(
    (column) => `CREATE INDEX ${table}_${column} ON ${table} (${column}, ordinal);`,
  );
  return `CREATE TABLE ${table} (ordinal INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE,
    ${extra} body TEXT NOT NULL) STRICT; ${indexes.join(" ")}`;
}

export const MIGRATIONS: readonly string[] = [
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
];

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
    for (const step of migrations.slice(version)) database.exec(step);
    database.exec(`PRAGMA user_version = ${migrations.length}`);
    database.exec("COMMIT");
  } catch (reason) {
    database.exec("ROLLBACK");
    throw reason;
  }
}
