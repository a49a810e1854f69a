// Directories that appear whole or not at all: filled under a name of their own, then renamed.

import { randomBytes } from "node:crypto";
import { mkdir, readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "./tree-seal.ts";

/** A new directory beside the finished ones, named after its maker so that a later one can clean. */
export async function createDraft(parent: string): Promise<string> {
  await mkdir(parent, { recursive: true, mode: 0o700 });
  const draft = join(parent, `.draft-${process.pid}-${randomBytes(6).toString("hex")}`);
  await mkdir(draft, { mode: 0o700 });
  return draft;
}

/** Renaming onto a directory with something in it fails, so exactly one maker wins. */
export async function renameUnlessThere(draft: string, path: string): Promise<boolean> {
  try {
    await rename(draft, path);
    return true;
  } catch (reason) {
    const { code } = reason as NodeJS.ErrnoException;
    if (code === "ENOTEMPTY" || code === "EEXIST") return false;
    throw reason;
  }
}

/** Removes what makers that are no more left half done: it may hold secrets, and takes room. */
export async function sweepDrafts(
  parent: string,
  isAlive: (pid: number) => boolean,
): Promise<void> {
  for (const name of await namesIn(parent)) {
    const pid = /^\.draft-([0-9]+)-/.exec(name)?.[1];
    if (pid === undefined || isAlive(Number(pid))) continue;
    await removeTree(join(parent, name));
  }
}

/** What is in a directory; one that was never made is empty. */
export async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch (reason) {
    if ((reason as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw reason;
  }
}
