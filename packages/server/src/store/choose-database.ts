// Which database a server begins with, given what it was told and what lies in its data directory. A server that
// silently began with an empty one would be taken by its agents for one that was set back.

import { Failure } from "@exclave/core";

export interface DatabaseFacts {
  readonly hasUrl: boolean;
  /** A SQLite file lies in the data directory. */
  readonly hasFile: boolean;
  /** What was in it was moved to PostgreSQL. */
  readonly wasMoved: boolean;
}

export function chooseDatabase({
  hasUrl,
  hasFile,
  wasMoved,
}: DatabaseFacts): "sqlite" | "postgres" {
  if (hasUrl) return "postgres";
  if (wasMoved && !hasFile) {
    throw new Failure(
      "conflict",
      "this server's memory was moved to PostgreSQL; set EXCLAVE_DATABASE_URL to that database",
    );
  }
  return "sqlite";
}

/** A new PostgreSQL database beside a SQLite file that was never moved: one of the two is not meant. */
export function refuseForgotten(facts: DatabaseFacts, isEmpty: boolean): void {
  if (!facts.hasUrl || !facts.hasFile || !isEmpty) return;
  throw new Failure(
    "conflict",
    "the PostgreSQL database is empty and this server's memory is still in SQLite; move it with `exclave server migrate --from sqlite --to postgres`, or begin with a new data directory",
  );
}
