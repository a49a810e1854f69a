// Small things done to files the same way everywhere.

import { chmod, lstat, readdir, stat } from "node:fs/promises";
import { join } from "node:path";

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
