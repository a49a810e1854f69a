// Objects in memory: for tests, and for the S3 double they run against.

import type { ObjectEntry, ObjectStore } from "./object-store.ts";

interface Kept {
  readonly bytes: Buffer;
  readonly modifiedAt: number;
}

export function createMemoryObjectStore({
  objects = new Map<string, Kept>(),
  now = Date.now,
}: {
  readonly objects?: Map<string, Kept>;
  readonly now?: () => number;
} = {}): ObjectStore {
  const open = new Map<object, { readonly key: string; readonly begunAt: number }>();

  return {
    async head(key) {
      const kept = objects.get(key);
      return kept && { sizeBytes: kept.bytes.length, modifiedAt: kept.modifiedAt };
    },

    async read(key, range) {
      const bytes = objects.get(key)?.bytes;
      if (!bytes || !range) return bytes;
      return bytes.subarray(range.from, range.to + 1);
    },

    async write(key, bytes) {
      objects.set(key, { bytes: Buffer.from(bytes), modifiedAt: now() });
    },

    async remove(key) {
      objects.delete(key);
    },

    async *list(prefix) {
      const keys = [...objects.keys()].filter((key) => key.startsWith(prefix)).sort();
      for (const key of keys) {
        const kept = objects.get(key);
        if (kept) yield entryOf(key, kept);
      }
    },

    async folders(prefix) {
      const names = new Set<string>();
      for (const key of objects.keys()) {
        const rest = key.startsWith(prefix) ? key.slice(prefix.length) : "";
        const slash = rest.indexOf("/");
        if (slash > 0) names.add(rest.slice(0, slash));
      }
      return [...names].sort();
    },

    upload(key) {
      const chunks: Buffer[] = [];
      const self = {};
      open.set(self, { key, begunAt: now() });
      return {
        async write(bytes) {
          if (!open.has(self)) throw new Error("this upload was given up");
          chunks.push(Buffer.from(bytes));
        },
        async complete() {
          if (!open.delete(self)) throw new Error("this upload was given up");
          objects.set(key, { bytes: Buffer.concat(chunks), modifiedAt: now() });
        },
        abort: async () => void open.delete(self),
      };
    },

    async abortUploads(prefix, before) {
      const stale = [...open].filter(
        ([, { key, begunAt }]) => key.startsWith(prefix) && begunAt < before,
      );
      for (const [upload] of stale) open.delete(upload);
      return stale.length;
    },
  };
}

function entryOf(key: string, { bytes, modifiedAt }: Kept): ObjectEntry {
  return { key, sizeBytes: bytes.length, modifiedAt };
}
