// The journal's file: opened, checked and brought to the newest schema, or quarantined.

import { existsSync, mkdirSync, renameSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Failure } from "@exclave/core";
import { privateDatabase } from "@exclave/machine";
import { RELEASE_SCHEMA } from "./release-tables.ts";

const FIRST_SCHEMA = `
  create table facts (name text primary key, value text not null) strict;
  create table events (seq integer primary key, body text not null) strict;
  create table jobs (name text primary key, ended_seq integer, record text not null) strict;
  create table settled (name text primary key) strict, without rowid;
  create table job_secrets (name text primary key, secrets text not null) strict;
  create table schedule (component text primary key, entry text not null) strict;
  create table outputs (component text primary key, outputs text not null) strict;
  create table secrets (name text primary key, value text not null) strict;
`;
/** In the order they ended: the oldest are forgotten. */
const SETTLED_IN_ORDER = `
  create table settled_in_order
    (ordinal integer primary key autoincrement, name text not null unique) strict;
  insert into settled_in_order (name) select name from settled;
  drop table settled;
  alter table settled_in_order rename to settled;
`;
/** A journal's version is how many of these it has been through. */
const MIGRATIONS = [FIRST_SCHEMA, RELEASE_SCHEMA, SETTLED_IN_ORDER];

export function openDatabase(path: string): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    privateDatabase(path);
    database = new DatabaseSync(path);
    database.exec("pragma journal_mode = wal; pragma synchronous = full;");
    const version = Number(database.prepare("pragma user_version").get()?.user_version);
    const check = Object.values(database.prepare("pragma quick_check(1)").get() ?? {})[0];
    if (check !== "ok") throw damaged(new Error(String(check)));
    if (version > MIGRATIONS.length) {
      throw new Failure("conflict", `${path} was written by a newer agent than this one`);
    }
    for (const [done, migration] of MIGRATIONS.entries()) {
      if (done < version) continue;
      database.exec(`begin; ${migration} pragma user_version = ${done + 1}; commit;`);
    }
    return database;
  } catch (cause) {
    database?.close();
    throw journalFailure(cause);
  }
}

export function journalFailure(cause: unknown): Failure {
  if (cause instanceof Failure) return cause;
  const { errcode, message } = cause as { errcode?: number; message?: string };
  const SQLITE_FULL = 13;
  // The low byte is the primary code, the rest says more.
  if (errcode !== undefined && (errcode & 0xff) === SQLITE_FULL) {
    return new Failure("disk_full", "there is no room left for the agent's journal", { cause });
  }
  if (errcode !== undefined && DAMAGED_CODES.has(errcode & 0xff)) return damaged(cause);
  return new Failure("unavailable", `the agent's journal cannot be written: ${message}`, { cause });
}

/** SQLITE_CORRUPT and SQLITE_NOTADB. */
const DAMAGED_CODES = new Set([11, 26]);

export function damaged(cause: unknown): Failure {
  const message = `the agent's journal is damaged: ${(cause as Error).message}`;
  return new Failure("unavailable", message, { cause, details: { isDamaged: true } });
}

/** Whether a start from an empty journal is the only way on. */
export function isDamaged(reason: unknown): boolean {
  return reason instanceof Failure && reason.details.isDamaged === true;
}

/** Out of the way of a new one, and kept for whoever wants to look at it. */
export function moveAside(path: string): string {
  const aside = `${path}.damaged-${Date.now()}`;
  for (const ending of ["", "-wal", "-shm"]) {
    if (existsSync(path + ending)) renameSync(path + ending, aside + ending);
  }
  return aside;
}
