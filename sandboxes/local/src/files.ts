// Small things done to files the same way everywhere: whole or not at all, and private.

import { randomBytes } from "node:crypto";
import { chmod, lstat, readdir, rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";

export async function writeWhole(path: string, content: string): Promise<void> {
  const draft = `${path}.${randomBytes(4).toString("hex")}.draft`;
  await writeFile(draft, content, { mode: 0o600, flush: true });
  await rename(draft, path);
}

export function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

/** Unpacked images are read-only, and what may not be written to cannot be emptied. */
export async function makeWritable(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (!found?.isDirectory()) return;
  await chmod(path, 0o700);
  for (const name of await readdir(path)) await makeWritable(join(path, name));
}
