// Logs wait here until the server has them: one file per attempt, addressed by byte offset. A file
// that is written again from the start, as after a crash, keeps what it has and goes on behind it.

import { createHash, type Hash } from "node:crypto";
import { type FileHandle, mkdir, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { JobName } from "@exclave/core";

export interface Spool {
  /** Opens an attempt's log to be written from its first byte. */
  write(name: JobName): Promise<SpoolWriter>;
  /** Bytes that were spooled; fewer than asked for where the file ends. */
  read(name: JobName, offset: number, bytes: number): Promise<Uint8Array>;
  remove(name: JobName): Promise<void>;
  /** Clears away what a crash left of logs that are delivered. */
  sweep(open: ReadonlySet<JobName>): Promise<void>;
}

export interface SpoolWriter {
  /** Appends, or passes over what an earlier life of the agent wrote. Retries after an error. */
  append(bytes: Uint8Array): Promise<void>;
  /** Makes it durable; says how long the log is and what it is. */
  finish(): Promise<{ readonly bytes: number; readonly sha256: string }>;
  /** Lets go of the file. */
  release(): Promise<void>;
  readonly bytes: number;
}

export function createSpool({ directory }: { readonly directory: string }): Spool {
  const path = (name: JobName) => join(directory, `${name}.log`);

  return {
    async write(name) {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      return createWriter(await open(path(name), "a+", 0o600));
    },
    async read(name, offset, bytes) {
      const file = await open(path(name), "r");
      try {
        const { bytesRead, buffer } = await file.read(new Uint8Array(bytes), 0, bytes, offset);
        return buffer.subarray(0, bytesRead);
      } finally {
        await file.close();
      }
    },
    async remove(name) {
      await rm(path(name), { force: true });
    },
    async sweep(open) {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      for (const file of await readdir(directory)) {
        const name = JobName.safeParse(file.replace(/\.log$/, "")).data;
        if (name && !open.has(name)) await rm(path(name), { force: true });
      }
    },
  };
}

async function createWriter(file: FileHandle): Promise<SpoolWriter> {
  const hash: Hash = createHash("sha256");
  const there = (await file.stat()).size;
  let written = there;
  let position = 0;

  return {
    get bytes() {
      return position;
    },
    async append(bytes) {
      const skip = Math.max(0, Math.min(bytes.length, written - position));
      let rest = bytes.subarray(skip);
      while (rest.length > 0) {
        const { bytesWritten } = await file.write(rest);
        rest = rest.subarray(bytesWritten);
        // Counted piece by piece, so that a write that fails half-way is not repeated whole.
        written += bytesWritten;
      }
      position += bytes.length;
      hash.update(bytes);
    },
    async finish() {
      // An earlier life cannot have made more of the same bytes, unless the disk lied; then the log
      // is what was made now.
      if (written > position) await file.truncate(position);
      await file.datasync();
      return { bytes: position, sha256: hash.digest("hex") };
    },
    release: () => file.close(),
  };
}
