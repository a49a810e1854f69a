// The journal's tables about releases.

import type { DatabaseSync } from "node:sqlite";
import { Digest } from "@exclave/core";
import {
  KeptStatement,
  type ReleaseFacts,
  type ReleaseMemory,
  type ReleaseWrite,
  STATEMENTS_MAX,
} from "./release-memory.ts";

export const RELEASE_SCHEMA = `
  create table statements (index_digest text primary key, kept integer not null, statement text not null) strict;
  create table release_floors (
    install text primary key, number integer not null, number_min integer not null, index_digest text not null
  ) strict;
  create table deployed (
    install text not null, component text not null, applied text, attempted text, primary key (install, component)
  ) strict, without rowid;
  create index deployed_applied on deployed (applied);
  create index deployed_attempted on deployed (attempted);
`;

export interface ReleaseTables extends ReleaseMemory {
  write(entry: ReleaseWrite): void;
}

export function createReleaseTables(database: DatabaseSync): ReleaseTables {
  const run = (sql: string, ...values: (string | number | null)[]) =>
    database.prepare(sql).run(...values);
  const rows = (sql: string, ...values: (string | number)[]) =>
    database.prepare(sql).all(...values);

  return { write, statement, statements, releases };

  function write(entry: ReleaseWrite): void {
    switch (entry.kind) {
      case "statement":
        return keep(entry);
      case "release_floor": {
        const { install, number, numberMin, index } = entry;
        const sql = "insert or replace into release_floors values (?, ?, ?, ?)";
        run(sql, install, number, numberMin, index);
        return;
      }
      case "deploying":
        run(
          `insert into deployed values (?, ?, null, ?)
           on conflict (install, component) do update set attempted = excluded.attempted`,
          entry.install,
          entry.component,
          entry.index,
        );
        return;
      case "deployed":
        run(
          "insert or replace into deployed values (?, ?, ?, null)",
          entry.install,
          entry.component,
          entry.index,
        );
        return;
      case "undeployed":
        run(
          "delete from deployed where install = ? and component = ?",
          entry.install,
          entry.component,
        );
        return;
      case "release_forgotten":
        run("delete from deployed where install = ?", entry.install);
        run("delete from release_floors where install = ?", entry.install);
    }
  }

  /** A peer can make any number of statements be verified; only so many stay. */
  function keep({ index, artifact, envelope }: KeptStatement): void {
    const text = JSON.stringify({ index, artifact, envelope } satisfies KeptStatement);
    run(
      `insert into statements select ?, coalesce(max(kept), 0) + 1, ? from statements where true
       on conflict (index_digest) do update set kept = excluded.kept, statement = excluded.statement`,
      index,
      text,
    );
    run(
      `delete from statements
       where index_digest not in (select index_digest from statements order by kept desc limit ?)
       and not exists (select 1 from release_floors f where f.index_digest = statements.index_digest)
       and not exists (select 1 from deployed d where d.applied = statements.index_digest)
       and not exists (select 1 from deployed d where d.attempted = statements.index_digest)`,
      STATEMENTS_MAX,
    );
  }

  function statement(index: Digest): KeptStatement | undefined {
    const [row] = rows("select statement from statements where index_digest = ?", index);
    return row && KeptStatement.parse(JSON.parse(String(row.statement)));
  }

  function statements(): readonly KeptStatement[] {
    return rows("select statement from statements order by kept desc").map((row) =>
      KeptStatement.parse(JSON.parse(String(row.statement))),
    );
  }

  function releases(install: string): ReleaseFacts {
    const [floor] = rows(
      "select number, number_min from release_floors where install = ?",
      install,
    );
    const deployed = rows(
      "select component, applied, attempted from deployed where install = ?",
      install,
    ).map(({ component, applied, attempted }) => {
      const digests = [applied, attempted].filter((digest) => digest !== null);
      return [String(component), digests.map((digest) => Digest.parse(digest))] as const;
    });
    return {
      ...(floor && {
        floor: { number: Number(floor.number), numberMin: Number(floor.number_min) },
      }),
      deployed: new Map(deployed),
    };
  }
}
