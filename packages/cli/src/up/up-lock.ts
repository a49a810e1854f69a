// One `up` per home. The record says who runs and what it started, so that the next one can tell a
// running `up` from one that was killed, and end what a killed one left behind.

import { link, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { readUpRecord, type UpRecord } from "../connection/connection.ts";
import { readIfThere, writePrivateFile } from "../connection/files.ts";
import type { Home } from "../connection/home.ts";
import { CliProblem } from "../program/problem.ts";
import { identify, isRunning, type ProcessIdentity } from "./processes.ts";

export interface UpLock {
  /** What the last `up` said, if it was killed before it could clean up. */
  readonly abandoned: UpRecord | undefined;
  /**
   * Puts down what runs now. Writes come one after the other and each reads the book's subject when its
   * turn has come, so that a late write of an early state cannot take a child off the record.
   */
  record(url: string, children: () => UpRecord["children"]): Promise<void>;
  release(): Promise<void>;
}

export async function takeUpLock(home: Home): Promise<UpLock> {
  const path = join(home.runDirectory, "up.lock");
  const self = await identify(process.pid);
  if (!self) throw new CliProblem("bug", "this process cannot find itself");
  await mkdir(home.runDirectory, { recursive: true, mode: 0o700 });
  await claim(path, self, home);
  const abandoned = await readUpRecord(home);
  let writing: Promise<void> = Promise.resolve();
  return {
    abandoned,
    record(url, children) {
      const write = () =>
        writePrivateFile(
          home.upFile,
          `${JSON.stringify({ url, ...self, children: children() })}\n`,
        );
      const mine = writing.then(write);
      writing = mine.catch(() => undefined);
      return mine;
    },
    async release() {
      await writing;
      await rm(home.upFile, { force: true });
      await rm(path, { force: true });
    },
  };
}

async function claim(path: string, self: ProcessIdentity, home: Home): Promise<void> {
  const draft = `${path}.${self.pid}`;
  await writePrivateFile(draft, JSON.stringify(self));
  try {
    for (let tries = 0; tries < 5; tries++) {
      try {
        // A link is made whole or not at all, and only one of two at the same time succeeds.
        return await link(draft, path);
      } catch (reason) {
        if ((reason as NodeJS.ErrnoException).code !== "EEXIST") throw reason;
      }
      const holder = await readHolder(path);
      if (holder && (await isRunning(holder))) {
        throw new CliProblem(
          "conflict",
          `exclave is up already in ${home.directory} (process ${holder.pid})`,
          {
            hint: "use it from here, stop it with Ctrl-C there, or set EXCLAVE_HOME to run another",
          },
        );
      }
      await rm(path, { force: true });
    }
    throw new CliProblem("conflict", `${path} cannot be taken; another exclave is starting`);
  } finally {
    await rm(draft, { force: true });
  }
}

async function readHolder(path: string): Promise<ProcessIdentity | undefined> {
  const text = await readIfThere(path);
  try {
    return text === undefined ? undefined : (JSON.parse(text) as ProcessIdentity);
  } catch {
    return undefined;
  }
}
