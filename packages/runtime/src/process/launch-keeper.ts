// Starts the keeper of a job and waits until the job is taken, by this keeper or an earlier one.

import { spawn } from "node:child_process";
import { open, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "@exclave/core";
import { isThere, type JobDirectory } from "./job-directory.ts";

const CLAIM_WITHIN_MS = 60_000;

export interface KeeperProgram {
  readonly nodePath: string;
  readonly keeperPath: string;
}

export async function launchKeeper(
  job: JobDirectory,
  { nodePath, keeperPath }: KeeperProgram,
): Promise<void> {
  const complaints = await open(job.keeperLog, "a", 0o600);
  let hasEnded = false;
  let failure: Error | undefined;
  try {
    const keeper = spawn(nodePath, [keeperPath, job.path], {
      cwd: "/",
      // Nothing of ours: the agent's environment may hold what no job should see.
      env: {},
      stdio: ["ignore", "ignore", complaints.fd],
      detached: true,
    });
    keeper.once("error", (reason) => {
      failure = reason;
      hasEnded = true;
    });
    keeper.once("exit", () => {
      hasEnded = true;
    });
    keeper.unref();
  } finally {
    await complaints.close();
  }

  const until = performance.now() + CLAIM_WITHIN_MS;
  while (!isThere(job.claim)) {
    // A keeper that ended looks once more at the claim: taking the job is the last thing it may do.
    if (hasEnded && !isThere(job.claim)) {
      const cause = failure ?? new Error((await readFile(job.keeperLog, "utf8")).trim());
      throw new Failure("unavailable", "the job's keeper cannot be started", { cause });
    }
    if (performance.now() >= until) {
      throw new Failure("timeout", `no keeper took the job within ${CLAIM_WITHIN_MS} ms`);
    }
    await sleep(10);
  }
}
