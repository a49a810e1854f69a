// A copy of all that a server is, made while it runs, and a server made from one.
//
// The database comes first: it is one moment of the record, and everything it names is in the files that
// are copied after it. What those hold beyond it is what any server that was set back has to live with.

import { existsSync } from "node:fs";
import { mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Failure } from "@exclave/core";
import {
  makeDirectory,
  readIfThere,
  syncDirectory,
  unlessAbsent,
  writeDurably,
} from "@exclave/machine";
import { z } from "zod";
import { claimDataDirectory } from "../data-directory.ts";
import { openReader } from "../store/sqlite/sqlite-dialect.ts";
import { type Copied, copyTree } from "./copy-tree.ts";

const DATABASE = "exclave.db";
/** Written last: without it a copy is not whole. */
const LABEL = "backup.json";
const Label = z.object({ version: z.literal(1), hasDatabase: z.boolean() });

export interface Backup extends Copied {
  readonly directory: string;
  /** False where it is PostgreSQL that has the rows: they have a backup of their own. */
  readonly hasDatabase: boolean;
}

const OF_THE_MOMENT = [
  "lock",
  `${DATABASE}-wal`,
  `${DATABASE}-shm`,
  "registry/lock",
  "registry/tmp",
];

/** Locks, SQLite's log of writes, uploads under way; and drafts, whose names begin with what no other name has. */
function isOfTheMoment(path: string): boolean {
  return OF_THE_MOMENT.includes(path) || basename(path).startsWith(":");
}

export async function backUpServer(data: string, to: string): Promise<Backup> {
  const [from, directory] = [resolve(data), resolve(to)];
  if (existsSync(directory)) {
    throw new Failure("conflict", `${directory} is there already: name one that is not`);
  }
  if (`${directory}/`.startsWith(`${from}/`)) {
    throw new Failure("invalid", `${directory} lies inside of what is to be copied`);
  }
  const hasDatabase = existsSync(join(from, DATABASE));
  if (!hasDatabase && !existsSync(join(from, "admin-token"))) {
    throw new Failure("not_found", `${from} is no server's data directory`);
  }
  const draft = `${directory}.draft`;
  await rm(draft, { recursive: true, force: true });
  await makeDirectory(dirname(directory));
  await mkdir(draft, { mode: 0o700 });
  if (hasDatabase) await copyDatabase(join(from, DATABASE), join(draft, DATABASE));
  const copied = await copyTree(from, draft, (path) => path === DATABASE || isOfTheMoment(path));
  await writeDurably(join(draft, LABEL), `${JSON.stringify({ version: 1, hasDatabase })}\n`);
  await rename(draft, directory);
  await syncDirectory(dirname(directory));
  return { ...copied, directory, hasDatabase };
}

/** One moment of it, whatever is written meanwhile. */
async function copyDatabase(from: string, to: string): Promise<void> {
  const database = openReader(from);
  try {
    database.prepare("VACUUM INTO ?").run(to);
  } finally {
    database.close();
  }
  const file = await open(to, "r+");
  try {
    await file.chmod(0o600);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Into a place where no server was: nothing is ever written over. */
export async function restoreServer(from: string, data: string): Promise<Backup> {
  const [source, directory] = [resolve(from), resolve(data)];
  const { hasDatabase } = await labelOf(source);
  if (hasDatabase) checkDatabase(join(source, DATABASE));
  const there = (await unlessAbsent(readdir(directory))) ?? [];
  if (there.length > 0) {
    throw new Failure("conflict", `${directory} is not empty: move what is there aside first`);
  }
  const draft = `${directory}.draft`;
  await rm(draft, { recursive: true, force: true });
  await makeDirectory(dirname(directory));
  const copied = await copyTree(source, draft, (path) => path === LABEL);
  await rm(directory, { recursive: true, force: true });
  await rename(draft, directory);
  await syncDirectory(dirname(directory));
  // Its doors are closed to others, and no other server has it.
  (await claimDataDirectory(directory)).release();
  return { ...copied, directory, hasDatabase };
}

async function labelOf(source: string): Promise<z.infer<typeof Label>> {
  const text = await readIfThere(join(source, LABEL));
  if (text === undefined) throw new Failure("not_found", `${source} holds no backup of a server`);
  try {
    return Label.parse(JSON.parse(text));
  } catch (cause) {
    throw new Failure("conflict", `${join(source, LABEL)} is damaged`, { cause });
  }
}

function checkDatabase(file: string): void {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(file, { readOnly: true });
    const { integrity_check: verdict } = database.prepare("PRAGMA integrity_check").get() as {
      integrity_check?: string;
    };
    if (verdict !== "ok") {
      throw new Failure("conflict", `the database of the backup is damaged: ${verdict}`);
    }
  } catch (cause) {
    if (cause instanceof Failure) throw cause;
    throw new Failure("conflict", `the database of the backup cannot be read: ${file}`, { cause });
  } finally {
    database?.close();
  }
}
