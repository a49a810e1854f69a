// Files that matter: written whole or not at all, and readable by their owner alone.

import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";

export async function writePrivateFile(
  path: string,
  content: string | AsyncIterable<string>,
): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = `${path}.${randomBytes(4).toString("hex")}`;
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
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
