// One `up` per home. The record says who runs and what it started, so that the next one can tell a
// running `up` from one that was killed, and end what a killed one left behind.

import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { claimForProcess, type ProcessIdentity, writeDurably } from "@exclave/machine";
import { readUpRecord, type UpRecord } from "../connection/connection.ts";
import type { Home } from "../connection/home.ts";
import { CliProblem } from "../program/problem.ts";

/** How the server is reached, and who vouches for it where it speaks TLS. */
export type Reached = Pick<UpRecord, "url" | "caFile">;

export interface UpLock {
  /** What the last `up` said, if it was killed before it could clean up. */
  readonly abandoned: UpRecord | undefined;
  /**
   * Puts down what runs now. Writes come one after the other and each reads the book's subject when its
   * turn has come, so that a late write of an early state cannot take a child off the record.
   */
  record(server: Reached, children: () => UpRecord["children"]): Promise<void>;
  release(): Promise<void>;
}

export async function takeUpLock(home: Home): Promise<UpLock> {
  const path = join(home.runDirectory, "up.lock");
  await mkdir(home.runDirectory, { recursive: true, mode: 0o700 });
  const self = await claim(path, home);
  const abandoned = await readUpRecord(home);
  let writing: Promise<void> = Promise.resolve();
  return {
    abandoned,
    record(server, children) {
      const write = () =>
        writeDurably(
          home.upFile,
          `${JSON.stringify({ ...server, ...self, children: children() })}\n`,
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

const CLAIM_TRIES = 5;

async function claim(path: string, home: Home): Promise<ProcessIdentity> {
  for (let tries = 0; tries < CLAIM_TRIES; tries++) {
    const claimed = claimForProcess(path);
    if (claimed.kind === "ours") return claimed.self;
    if (claimed.kind === "theirs") {
      throw new CliProblem(
        "conflict",
        `exclave is up already in ${home.directory} (process ${claimed.holder.pid})`,
        {
          hint: "use it from here, stop it with Ctrl-C there, or set EXCLAVE_HOME to run another",
        },
      );
    }
    await sleep(50);
  }
  throw new CliProblem("conflict", `${path} cannot be taken; another exclave is starting`);
}
