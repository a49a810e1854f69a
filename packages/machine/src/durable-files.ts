// Files and names that survive a power cut. Bytes need a sync of the file, a name needs one of the
// directory it is in, and a new directory is itself a name in the one above it.

import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { Failure } from "@exclave/core";

/** Who may read a file, and the directories that are made for it; the umask takes from both. */
export interface FileModes {
  readonly file: number;
  readonly directory: number;
}

export const PRIVATE: FileModes = { file: 0o600, directory: 0o700 };
export const SHARED: FileModes = { file: 0o666, directory: 0o777 };

/** A small file, replaced as a whole: a reader sees the old bytes or the new ones. */
export async function writeDurably(
  file: string,
  content: string | Uint8Array | AsyncIterable<string>,
  modes = PRIVATE,
): Promise<void> {
  // A colon is in no repository name, tag or digest's hex, so this is never taken for a real entry.
  const draft = join(dirname(file), `:${randomUUID()}`);
  const handle = await openMaking(draft, "wx", modes);
  try {
    await handle.writeFile(content);
    await placeDurably(handle, draft, file);
  } catch (reason) {
    await rm(draft, { force: true });
    throw diskFailure(reason);
  } finally {
    await handle.close();
  }
}

/** After this, `file` names what was written through `handle`, also after a power cut. */
export async function placeDurably(handle: FileHandle, draft: string, file: string): Promise<void> {
  await inSyncTurn(() => handle.sync());
  await rename(draft, file);
  await syncDirectory(dirname(file));
}

/** A file without bytes: all it says is that it is there, and since when. */
export async function markDurably(file: string): Promise<void> {
  try {
    closeLater(await openMaking(file, "w", SHARED));
    await syncDirectory(dirname(file));
  } catch (reason) {
    throw diskFailure(reason);
  }
}

/** Takes a name away for good; false when it was not there. */
export async function removeDurably(file: string): Promise<boolean> {
  const isGone = await unlessAbsent(rm(file).then(() => true));
  if (!isGone) return false;
  await syncDirectory(dirname(file));
  return true;
}

/** A new name, durable only after `syncDirectory` of the place it is in. */
export async function renameMaking(from: string, to: string): Promise<void> {
  if (await unlessAbsent(rename(from, to).then(() => true))) return;
  await makeDirectory(dirname(to));
  await rename(from, to);
}

async function openMaking(file: string, flags: string, modes: FileModes): Promise<FileHandle> {
  try {
    const handle = await unlessAbsent(open(file, flags, modes.file));
    if (handle) return handle;
    await makeDirectory(dirname(file), modes.directory);
    return await open(file, flags, modes.file);
  } catch (reason) {
    // A disk can be out of names while it has room for bytes.
    throw diskFailure(reason);
  }
}

/** Directories made a moment ago by anyone: a name below them counts only once they do. */
const making = new Set<Promise<void>>();

export async function makeDirectory(directory: string, mode = SHARED.directory): Promise<void> {
  const made = makeAndSync(resolve(directory), mode);
  making.add(made);
  try {
    await made;
  } finally {
    making.delete(made);
  }
}

async function makeAndSync(directory: string, mode: number): Promise<void> {
  const first = await mkdir(directory, { recursive: true, mode });
  if (first === undefined) return;
  const top = dirname(first);
  for (let at = dirname(directory); at.length >= top.length; at = dirname(at)) {
    await syncNow(at);
    if (at === dirname(at)) return;
  }
}

interface Sync {
  readonly running: Promise<void>;
  next?: Promise<void>;
}

const syncs = new Map<string, Sync>();

/**
 * Makes the names in a directory durable. Writers that finish together share one sync: whoever
 * comes while one is running cannot know whether it still covers them, and waits for the next.
 */
export async function syncDirectory(directory: string): Promise<void> {
  await Promise.all(making);
  const under = syncs.get(directory);
  if (!under) return startSync(directory);
  under.next ??= under.running.catch(() => undefined).then(() => startSync(directory));
  return under.next;
}

function startSync(directory: string): Promise<void> {
  const sync: Sync = { running: syncNow(directory) };
  syncs.set(directory, sync);
  const forget = () => {
    if (syncs.get(directory) === sync && !sync.next) syncs.delete(directory);
  };
  sync.running.then(forget, forget);
  return sync.running;
}

async function syncNow(directory: string): Promise<void> {
  const handle = await open(directory, "r");
  try {
    await inSyncTurn(() => handle.sync());
  } finally {
    closeLater(handle);
  }
}

/**
 * Each sync holds one of the four threads that file calls have, on a slow disk for long. One is left
 * for everything else, above all for reading.
 */
const SYNCS_MAX = 3;
let syncCount = 0;
const waitingToSync: (() => void)[] = [];

/** Syncs when it is its turn; first come, first served. No sync may wait for another inside of it. */
export async function inSyncTurn(sync: () => Promise<void>): Promise<void> {
  if (canSyncNow()) syncCount += 1;
  // Whoever is done hands its place on, so that nobody who comes later gets in between.
  else await new Promise<void>((resolve) => waitingToSync.push(resolve));
  try {
    await sync();
  } finally {
    const next = waitingToSync.shift();
    if (next) next();
    else syncCount -= 1;
  }
}

/** For a sync that somebody would like, but does not need. */
export function canSyncNow(): boolean {
  return syncCount < SYNCS_MAX;
}

/** For a file of which everything is on disk already: nobody has to wait for this. */
export function closeLater(handle: FileHandle): void {
  handle.close().catch(() => undefined);
}

/** Undefined instead of a failure when a path does not lead to anything. */
export async function unlessAbsent<T>(looking: Promise<T>): Promise<T | undefined> {
  try {
    return await looking;
  } catch (reason) {
    const { code } = reason as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw reason;
  }
}

/** The text of a file, or undefined where there is none. */
export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (reason) {
    if (isMissing(reason)) return undefined;
    throw reason;
  }
}

export function isMissing(reason: unknown): boolean {
  return (reason as NodeJS.ErrnoException).code === "ENOENT";
}

export function diskFailure(reason: unknown): unknown {
  const { code } = reason as NodeJS.ErrnoException;
  if (code !== "ENOSPC" && code !== "EDQUOT") return reason;
  return new Failure("disk_full", "there is no room left for content", { cause: reason });
}
