// Small things done to files the same way everywhere: whole or not at all, and private.

import { randomBytes } from "node:crypto";
import { rename, stat, writeFile } from "node:fs/promises";

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
