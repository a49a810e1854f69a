// The names a registry is made of, in a directory: links that say what belongs where, and content under its digest.

import { link, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { markDurably, removeDurably, unlessAbsent } from "@exclave/machine";
import { readFileIfThere, writeFileDurably } from "../../content/blob-files.ts";

export interface RegistryTree {
  read(path: string): Promise<Buffer | undefined>;
  /** Durable when it returns, and whole or not there. */
  write(path: string, text: string): Promise<void>;
  /** A link that says nothing but that it is there. */
  mark(path: string): Promise<void>;
  /** False when there was nothing to take away. */
  remove(path: string): Promise<boolean>;
  modifiedAt(path: string): Promise<number | undefined>;
  /** As if it had been written now; nothing where it is gone. */
  touch(path: string): Promise<void>;
  /** Whether it is there and stays: for whoever has said durably that they build on it. */
  isThere(path: string): Promise<boolean>;
  /** Right below, without what is still being written; and without what is aside, which may yet be put back, unless asked. */
  names(folder: string, options?: { readonly withAside?: boolean }): Promise<string[]>;
  /** Whether it is there, or aside. */
  isLinked(folder: string, name: string): Promise<boolean>;
  folders(folder: string): Promise<string[]>;
  /**
   * Takes away names that nothing needs. Each is first put out of sight of those who would build on it, and then it is asked
   * once more whether anything needs it.
   */
  removeUnneeded(folder: string, removal: Removal): Promise<Removed>;
  /** Mends what a killed collector or writer has left in a folder. */
  tidy(folder: string, before: number): Promise<void>;
}

export interface Removal {
  readonly isCandidate: (name: string) => boolean;
  /** Only what was last written before then. */
  readonly before: number;
  readonly isNeeded: (name: string) => Promise<boolean>;
  /** Of all names at once. */
  readonly allNeeded: () => Promise<ReadonlySet<string> | "unclear">;
  /** Awaited where others may come in between, so that a test can be the one who does. */
  readonly onStep: (step: "found" | "aside", name: string) => Promise<void>;
}

export interface Removed {
  readonly count: number;
  readonly bytes: number;
}

/** A name moved aside. The colon keeps it out of every listing. */
const ASIDE = ":aside-";
/** A link that was being written, as `writeFileDurably` calls it until it is whole. */
const DRAFT = /^:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export function createFileTree(directory: string): RegistryTree {
  const at = (path: string) => join(directory, path);

  return {
    read: (path) => readFileIfThere(at(path)),
    write: (path, text) => writeFileDurably(at(path), text),
    mark: (path) => markDurably(at(path)),
    remove: (path) => removeDurably(at(path)),

    async modifiedAt(path) {
      return (await unlessAbsent(stat(at(path))))?.mtimeMs;
    },

    async touch(path) {
      const now = new Date();
      await unlessAbsent(utimes(at(path), now, now));
    },

    async isThere(path) {
      return (await unlessAbsent(stat(at(path)))) !== undefined;
    },

    async names(folder, { withAside = false } = {}) {
      const found = (await unlessAbsent(readdir(at(folder)))) ?? [];
      const all = withAside ? found.map((name) => name.replace(ASIDE, "")) : found;
      return all.filter((name) => !name.startsWith(":"));
    },

    async isLinked(folder, name) {
      for (const entry of [name, `${ASIDE}${name}`]) {
        if (await unlessAbsent(stat(at(join(folder, entry))))) return true;
      }
      return false;
    },

    async folders(folder) {
      const found = await unlessAbsent(readdir(at(folder), { withFileTypes: true }));
      return (found ?? []).filter((entry) => entry.isDirectory()).map(({ name }) => name);
    },

    async removeUnneeded(folder, removal) {
      let [count, bytes] = [0, 0];
      const names = (await unlessAbsent(readdir(at(folder)))) ?? [];
      for (const name of names) {
        if (name.startsWith(":") || !removal.isCandidate(name)) continue;
        const size = await removeOne(at(folder), name, removal);
        if (size === undefined) continue;
        count++;
        bytes += size;
      }
      return { count, bytes };
    },

    async tidy(folder, before) {
      for (const name of (await unlessAbsent(readdir(at(folder)))) ?? []) {
        // A collector that was killed may have left needed names aside.
        if (name.startsWith(ASIDE)) await putBack(at(folder), name.slice(ASIDE.length));
        const draft = DRAFT.test(name)
          ? await unlessAbsent(stat(at(join(folder, name))))
          : undefined;
        if (draft && draft.mtimeMs <= before) await rm(at(join(folder, name)), { force: true });
      }
    },
  };
}

/** The size of what was removed; undefined when it stays. */
async function removeOne(
  folder: string,
  name: string,
  { before, isNeeded, onStep }: Removal,
): Promise<number | undefined> {
  const path = join(folder, name);
  const aside = join(folder, `${ASIDE}${name}`);
  const found = await unlessAbsent(stat(path));
  if (!found || found.mtimeMs > before) return undefined;
  await onStep("found", name);
  if (!(await unlessAbsent(rename(path, aside).then(() => true)))) return undefined;
  const moved = await unlessAbsent(stat(aside));
  if (!moved) return undefined;
  await onStep("aside", name);
  if (moved.mtimeMs > before || (await isNeeded(name))) {
    await putBack(folder, name);
    return undefined;
  }
  return (await removeDurably(aside)) ? moved.size : undefined;
}

async function putBack(folder: string, name: string): Promise<void> {
  const aside = join(folder, `${ASIDE}${name}`);
  try {
    // Unlike a rename, this leaves alone what has come to the place in the meantime.
    await link(aside, join(folder, name));
  } catch (reason) {
    const { code } = reason as NodeJS.ErrnoException;
    if (code !== "EEXIST" && code !== "ENOENT") throw reason;
  }
  await removeDurably(aside);
}
