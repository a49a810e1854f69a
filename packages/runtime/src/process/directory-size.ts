// How much lies in a directory. Looked at while others write there, so what vanishes on the way is
// passed over; and never dearer than it is worth, so it stops at what it was asked about.

import type { Dirent } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";

/** A tree with more entries is not measured to its end. */
const ENTRIES_MAX = 200_000;
const BLOCK = 512;

/** The bytes on the disk, exact up to `enough`; more than that is only said to be more. */
export async function directorySize(path: string, enough: number): Promise<number> {
  const waiting = [path];
  let bytes = 0;
  let entries = 0;
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    for (const entry of await entriesOf(next)) {
      entries += 1;
      if (bytes > enough || entries > ENTRIES_MAX) return bytes;
      const place = join(next, entry.name);
      if (entry.isDirectory()) waiting.push(place);
      else if (entry.isFile()) bytes += await sizeOf(place);
    }
  }
  return bytes;
}

async function entriesOf(path: string): Promise<Dirent[]> {
  return readdir(path, { withFileTypes: true }).catch(() => []);
}

/** What it takes on the disk: a file with holes is as large as what was written to it. */
async function sizeOf(path: string): Promise<number> {
  return lstat(path).then(
    ({ blocks }) => blocks * BLOCK,
    () => 0,
  );
}
