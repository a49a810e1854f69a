// Files that are whole or not there: written beside, synced, then put in place by name.

import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";

export async function writeDurably(file: string, text: string, mode: number): Promise<void> {
  const beside = `${file}.new`;
  const handle = await open(beside, "w", mode);
  try {
    // One that was left over has a mode of its own.
    await handle.chmod(mode);
    await handle.writeFile(text);
    await placeDurably(handle, beside, file);
  } catch (reason) {
    await rm(beside, { force: true });
    throw reason;
  } finally {
    await handle.close();
  }
}

/** After this, `file` names what was written through `handle`, also after a power cut. */
export async function placeDurably(
  handle: FileHandle,
  beside: string,
  file: string,
): Promise<void> {
  await handle.sync();
  await rename(beside, file);
  const directory = await open(dirname(file), "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
