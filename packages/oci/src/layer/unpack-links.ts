// Links that come out of archives. None may lead out of the directory it is unpacked into, whatever
// other links it goes through, and none stays behind when the run that made it fails.

import { lstat, readlink, rm } from "node:fs/promises";
import { join, posix } from "node:path";
import { Failure } from "@exclave/core";
import { unlessAbsent } from "../content/blob-files.ts";

const LINKS_MAX = 40;

/**
 * Runs `work`, which adds the place of every link it makes. Links are checked once everything is in
 * place, for what comes later may lead an earlier one elsewhere.
 */
export async function guardLinks<T>(
  directory: string,
  work: (links: Set<string>) => Promise<T>,
): Promise<T> {
  const links = new Set<string>();
  try {
    const result = await work(links);
    for (const path of links) await resolveInside(directory, path);
    return result;
  } catch (reason) {
    for (const path of links) await removeLink(directory, path);
    throw reason;
  }
}

/** Where an entry really goes: its parents may be links by now, its last name is not followed. */
export async function placeInside(directory: string, path: string): Promise<string> {
  const parent = await resolveInside(directory, posix.dirname(path), path);
  return posix.join(parent, posix.basename(path));
}

export function refused(path: string, because: string): Failure {
  return new Failure(
    "invalid",
    `the archive's entry ${JSON.stringify(path)} is refused: ${because}`,
  );
}

/** Follows a path as the system would, and fails where it leaves the directory. */
async function resolveInside(directory: string, path: string, entry = path): Promise<string> {
  const waiting = path.split("/").reverse();
  const at: string[] = [];
  let followed = 0;
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (name === "" || name === ".") continue;
    if (name === "..") {
      if (at.pop() === undefined) throw refused(entry, "it leads out of the directory");
      continue;
    }
    const here = join(directory, ...at, name);
    const found = await unlessAbsent(lstat(here));
    if (!found?.isSymbolicLink()) {
      at.push(name);
      continue;
    }
    if (++followed > LINKS_MAX) throw refused(entry, "its links go in circles");
    const target = await readlink(here);
    if (target.startsWith("/")) throw refused(entry, "it leads out of the directory");
    waiting.push(...target.split("/").reverse());
  }
  return at.join("/");
}

/** A link's directory may have become a link itself; the one that was made is gone with it then. */
async function removeLink(directory: string, path: string): Promise<void> {
  const names = path.split("/");
  for (const count of names.slice(1).keys()) {
    const parent = await unlessAbsent(lstat(join(directory, ...names.slice(0, count + 1))));
    if (!parent?.isDirectory()) return;
  }
  const file = join(directory, path);
  const found = await unlessAbsent(lstat(file));
  if (found?.isSymbolicLink()) await rm(file, { force: true });
}
