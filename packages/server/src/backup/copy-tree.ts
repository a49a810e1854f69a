// Copies a tree of files that others may be writing to: what vanishes meanwhile is left out, what is
// copied is durable before this returns.

import { constants } from "node:fs";
import { chmod, copyFile, mkdir, open, readdir, stat } from "node:fs/promises";
import { join, relative } from "node:path";
import { diskFailure, syncDirectory, unlessAbsent } from "@exclave/machine";

export interface Copied {
  readonly files: number;
  readonly bytes: number;
}

/** `isLeftOut` is asked of each path, from the top of the tree on. */
export async function copyTree(
  from: string,
  to: string,
  isLeftOut: (path: string) => boolean,
): Promise<Copied> {
  try {
    return await copyDirectory(from, to, (path) => isLeftOut(relative(from, path)));
  } catch (reason) {
    throw diskFailure(reason);
  }
}

async function copyDirectory(
  from: string,
  to: string,
  isLeftOut: (path: string) => boolean,
): Promise<Copied> {
  let files = 0;
  let bytes = 0;
  const entries = await unlessAbsent(readdir(from, { withFileTypes: true }));
  if (!entries) return { files, bytes };
  await mkdir(to, { recursive: true, mode: 0o700 });
  for (const entry of entries) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (isLeftOut(source)) continue;
    if (entry.isDirectory()) {
      const below = await copyDirectory(source, target, isLeftOut);
      files += below.files;
      bytes += below.bytes;
    } else if (entry.isFile()) {
      const size = await unlessAbsent(copyOne(source, target));
      if (size === undefined) continue;
      files += 1;
      bytes += size;
    }
  }
  await syncDirectory(to);
  return { files, bytes };
}

async function copyOne(from: string, to: string): Promise<number> {
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  const { mode } = await stat(to);
  // A key that may not be written to is copied like any other.
  await chmod(to, mode | 0o600);
  const file = await open(to, "r+");
  try {
    await file.sync();
    return (await file.stat()).size;
  } finally {
    await file.close();
  }
}
