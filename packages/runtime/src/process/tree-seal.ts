// A directory tree that nobody is to change: made read-only, and known by one digest over every name,
// mode, link and byte in it. Whether it still is what it was is asked before each use; what was hashed
// once and has not been touched since is not read again, so asking costs a look at each file's entry.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { chmod, lstat, readdir, readlink, rm } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "@exclave/core";

export interface TreeSeals {
  /** Takes away every right to write, and gives the digest of what is there. */
  seal(directory: string): Promise<string>;
  /** Whether the tree is still exactly that; false for one that is not there. */
  matches(directory: string, seal: string): Promise<boolean>;
}

const ENTRIES_MAX = 500_000;
/** Hashes that are remembered; beyond it all are forgotten and made anew. */
const REMEMBERED_MAX = 100_000;
const WRITE_BITS = 0o222;

export function createTreeSeals(): TreeSeals {
  // By what the kernel changes with every write and nobody without its rights can set back: ctime.
  const remembered = new Map<string, string>();

  return {
    async seal(directory) {
      await forEachEntry(directory, async (path, stats) => {
        const mode = stats.mode & 0o7777;
        // Only where it changes something: what is shared with other trees counts as touched by it.
        const isOpen = !stats.isSymbolicLink() && (mode & WRITE_BITS) !== 0;
        if (isOpen) await chmod(path, mode & ~WRITE_BITS);
      });
      return digestOf(directory);
    },
    async matches(directory, seal) {
      try {
        return (await digestOf(directory)) === seal;
      } catch (reason) {
        // Whoever changes a tree while it is looked at has changed it.
        if (reason instanceof Failure || isAbsence(reason)) return false;
        throw reason;
      }
    },
  };

  async function digestOf(directory: string): Promise<string> {
    const hash = createHash("sha256");
    await forEachEntry(directory, async (path, stats) => {
      const what = await contentOf(path, stats);
      const mode = (stats.mode & 0o7777).toString(8);
      hash.update(JSON.stringify([path.slice(directory.length), mode, what]));
    });
    return `sha256:${hash.digest("hex")}`;
  }

  async function contentOf(path: string, stats: Stats): Promise<string> {
    if (stats.isDirectory()) return "directory";
    if (stats.isSymbolicLink()) return `link ${await readlink(path)}`;
    if (!stats.isFile()) throw new Failure("conflict", `${path} is no file of an image`);
    const key = [stats.dev, stats.ino, stats.size, stats.ctimeNs, stats.mtimeNs].join(":");
    const known = remembered.get(key);
    if (known !== undefined) return known;
    const content = `file ${await hashOf(path)}`;
    if (remembered.size >= REMEMBERED_MAX) remembered.clear();
    remembered.set(key, content);
    return content;
  }
}

type Stats = Awaited<ReturnType<typeof statsOf>>;

async function statsOf(path: string) {
  const found = await lstat(path, { bigint: true });
  return {
    dev: found.dev,
    ino: found.ino,
    size: found.size,
    ctimeNs: found.ctimeNs,
    mtimeNs: found.mtimeNs,
    mode: Number(found.mode),
    isDirectory: () => found.isDirectory(),
    isFile: () => found.isFile(),
    isSymbolicLink: () => found.isSymbolicLink(),
  };
}

/** Every entry below a directory and the directory itself, in one order, each after what is in it. */
async function forEachEntry(
  directory: string,
  take: (path: string, stats: Stats) => Promise<void>,
): Promise<void> {
  let entries = 0;
  await visit(directory);

  async function visit(path: string): Promise<void> {
    entries += 1;
    if (entries > ENTRIES_MAX) throw new Failure("too_large", `${directory} has too many files`);
    const stats = await statsOf(path);
    if (stats.isDirectory()) {
      const names = await readdir(path);
      for (const name of names.sort()) await visit(join(path, name));
    }
    await take(path, stats);
  }
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
    hash.update(chunk as Buffer);
  }
  return hash.digest("hex");
}

/** Removes a tree that may be sealed: what may not be written to cannot be emptied either. */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true });
  } catch (reason) {
    if (!["EACCES", "EPERM"].includes((reason as NodeJS.ErrnoException).code ?? "")) throw reason;
    await makeWritable(path);
    await rm(path, { recursive: true, force: true });
  }
}

async function makeWritable(path: string): Promise<void> {
  const stats = await lstat(path);
  if (!stats.isDirectory()) return;
  await chmod(path, (stats.mode & 0o777) | 0o700);
  for (const name of await readdir(path)) await makeWritable(join(path, name));
}

function isAbsence(reason: unknown): boolean {
  const { code } = reason as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ENOTDIR";
}
