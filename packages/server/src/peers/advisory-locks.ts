// What one server does at a time, by locks of the database that go with a server's connection.

import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "@exclave/core";
import { createAlone, type Peers } from "./peers.ts";
import type { Query } from "./server-rows.ts";

/** Any number that no other program uses for its locks. */
const ALONE_LOCK = 0x65_78_63_61;
const TRY_AGAIN_MS = 100;

export function createAdvisoryLocks(
  query: Query,
  stopping: AbortSignal,
): Pick<Peers, "alone" | "unlessBusy"> {
  // A connection that has a lock gets it again: within this process names are taken in turn.
  const within = createAlone();

  return {
    alone: (name, work) =>
      within.run(name, async () => {
        while (!(await tryLock(name))) {
          if (stopping.aborted) throw new Failure("unavailable", "the server is stopping");
          await sleep(TRY_AGAIN_MS * (0.5 + Math.random()));
        }
        return workAndUnlock(name, work);
      }),
    async unlessBusy(name, work) {
      if (within.isBusy(name)) return;
      await within.run(name, async () => {
        if (await tryLock(name)) await workAndUnlock(name, work);
      });
    },
  };

  async function tryLock(name: string): Promise<boolean> {
    const text = "SELECT pg_try_advisory_lock($1, hashtext($2)) AS got";
    const [row] = await query<{ got: boolean }>(text, [ALONE_LOCK, name]);
    return row?.got === true;
  }

  async function workAndUnlock<Value>(name: string, work: () => Promise<Value>): Promise<Value> {
    try {
      return await work();
    } finally {
      // One that is cut off has lost it already.
      const text = "SELECT pg_advisory_unlock($1, hashtext($2))";
      await query(text, [ALONE_LOCK, name]).catch(() => undefined);
    }
  }
}
