// A spool in memory: for the simulation, where what an agent had spooled outlives its crash.

import { createHash } from "node:crypto";
import type { JobName } from "@exclave/core";
import type { Spool, SpoolWriter } from "./spool.ts";

export interface MemorySpool extends Spool {
  /** What would be found on the disk, by attempt; what was not finished may be torn by a crash. */
  readonly files: Map<JobName, SpooledFile>;
}

export interface SpooledFile {
  readonly bytes: Uint8Array;
  readonly isDurable: boolean;
}

export function createMemorySpool(files = new Map<JobName, SpooledFile>()): MemorySpool {
  return {
    files,
    write: async (name) => createWriter(files, name),
    async read(name, offset, length) {
      const file = files.get(name);
      if (!file) throw Object.assign(new Error(`there is no log of ${name}`), { code: "ENOENT" });
      return file.bytes.subarray(offset, offset + length);
    },
    remove: async (name) => void files.delete(name),
    async sweep(open) {
      for (const name of files.keys()) if (!open.has(name)) files.delete(name);
    },
  };
}

function createWriter(files: Map<JobName, SpooledFile>, name: JobName): SpoolWriter {
  const hash = createHash("sha256");
  let position = 0;
  const bytesOf = () => files.get(name)?.bytes ?? new Uint8Array();
  files.set(name, { bytes: bytesOf(), isDurable: false });

  return {
    get bytes() {
      return position;
    },
    async append(bytes) {
      const there = bytesOf();
      const rest = bytes.subarray(Math.max(0, Math.min(bytes.length, there.length - position)));
      if (rest.length > 0) {
        files.set(name, { bytes: Buffer.concat([there, rest]), isDurable: false });
      }
      position += bytes.length;
      hash.update(bytes);
    },
    async finish() {
      files.set(name, { bytes: bytesOf().subarray(0, position), isDurable: true });
      return { bytes: position, sha256: hash.digest("hex") };
    },
    release: async () => undefined,
  };
}
