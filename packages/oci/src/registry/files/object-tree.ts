// The names a registry is made of, in an object store. Nothing can be renamed there: a collector says by a notice beside
// all names (`aside/<path>`) that it is about to remove one, and only then asks whether anything needs it. Whoever has built on
// a name looks for such a notice afterwards, and waits until the collector has decided. A collector that was killed leaves a
// notice, which counts for nothing after a while.

import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "@exclave/core";
import type { ObjectEntry, ObjectStore } from "../../objects/object-store.ts";
import type { RegistryTree, Removal } from "./registry-tree.ts";

/** A collector that has not decided by then leaves the names alone. */
const DECIDED_MS_MAX = 60_000;
/** Far more than that, and than two clocks may differ. */
const NOTICE_MS_MAX = 30 * 60_000;
const TOGETHER_MAX = 100;
const LOOK_MS = 200;
const LOOKS_MAX = 100;

export function createObjectTree(objects: ObjectStore, now: () => number = Date.now): RegistryTree {
  const tree: RegistryTree = {
    read: (path) => objects.read(path),
    write: (path, text) => objects.write(path, Buffer.from(text)),
    mark: (path) => objects.write(path, Buffer.alloc(0)),

    async remove(path) {
      const isHere = (await objects.head(path)) !== undefined;
      if (isHere) await objects.remove(path);
      return isHere;
    },

    modifiedAt: async (path) => (await objects.head(path))?.modifiedAt,

    async touch(path) {
      const bytes = await objects.read(path);
      if (bytes) await objects.write(path, bytes);
    },

    async isThere(path) {
      for (let looks = 0; await isAnnounced(path); looks++) {
        if (looks === LOOKS_MAX) {
          throw new Failure("unavailable", "garbage is being collected; try again in a minute");
        }
        await sleep(LOOK_MS);
      }
      return (await objects.head(path)) !== undefined;
    },

    async names(folder) {
      const found: string[] = [];
      for await (const { key } of entries(folder)) found.push(key.slice(folder.length + 1));
      return found;
    },

    isLinked: async (folder, name) => (await objects.head(`${folder}/${name}`)) !== undefined,

    folders: (folder) => objects.folders(`${folder}/`),

    async removeUnneeded(folder, removal) {
      const due: ObjectEntry[] = [];
      for await (const entry of entries(folder)) {
        const isOld = entry.modifiedAt <= removal.before;
        if (isOld && removal.isCandidate(nameIn(folder, entry))) due.push(entry);
      }
      let [count, bytes] = [0, 0];
      for (let at = 0; at < due.length; at += TOGETHER_MAX) {
        for (const entry of await removeGroup(
          objects,
          now,
          folder,
          due.slice(at, at + TOGETHER_MAX),
          removal,
        )) {
          count++;
          bytes += entry.sizeBytes;
        }
      }
      return { count, bytes };
    },

    async tidy(folder) {
      for await (const { key, modifiedAt } of objects.list(notice(`${folder}/`))) {
        if (now() - modifiedAt > NOTICE_MS_MAX) await objects.remove(key);
      }
    },
  };
  return tree;

  async function* entries(folder: string): AsyncIterable<ObjectEntry> {
    const prefix = `${folder}/`;
    for await (const entry of objects.list(prefix)) {
      if (!entry.key.slice(prefix.length).includes("/")) yield entry;
    }
  }

  async function isAnnounced(path: string): Promise<boolean> {
    const said = await objects.head(notice(path));
    return said !== undefined && now() - said.modifiedAt <= NOTICE_MS_MAX;
  }
}

async function removeGroup(
  objects: ObjectStore,
  now: () => number,
  folder: string,
  group: readonly ObjectEntry[],
  { before, allNeeded, onStep }: Removal,
): Promise<ObjectEntry[]> {
  const removed: ObjectEntry[] = [];
  const begunAt = now();
  for (const entry of group) {
    await onStep("found", nameIn(folder, entry));
    await objects.write(notice(entry.key), Buffer.alloc(0));
  }
  try {
    for (const entry of group) await onStep("aside", nameIn(folder, entry));
    const needed = await allNeeded();
    for (const entry of group) {
      if (needed === "unclear" || needed.has(nameIn(folder, entry))) continue;
      const found = await objects.head(entry.key);
      // Written or looked at since: somebody is about to build on it.
      if (!found || found.modifiedAt > before) continue;
      if (now() - begunAt > DECIDED_MS_MAX) break;
      await objects.remove(entry.key);
      removed.push(entry);
    }
  } finally {
    for (const { key } of group) await objects.remove(notice(key));
  }
  return removed;
}

const notice = (path: string) => `aside/${path}`;

function nameIn(folder: string, { key }: ObjectEntry): string {
  return key.slice(folder.length + 1);
}
