// Ends what a job runs.

import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "@exclave/core";
import { inspectJob } from "./inspect-job.ts";
import { type JobDirectory, readProgram } from "./job-directory.ts";
import {
  askToEnd,
  processTable,
  sessionMembers,
  signalProcess,
  signalSession,
} from "./process-table.ts";
import { straysOf } from "./strays.ts";

const KILL_WITHIN_MS = 30_000;
const POLL_MS = 20;

/** SIGTERM to the first process, SIGKILL to all after the grace, and back once nothing runs and the end is known. */
export async function endProgram(job: JobDirectory, graceMs: number): Promise<void> {
  const since = performance.now();
  let hasAsked = false;
  while (true) {
    const waitedMs = performance.now() - since;
    const program = readProgram(job);
    const isRunning = program !== undefined && sessionMembers(processTable, program).length > 0;
    if (!isRunning && inspectJob(job).kind !== "running") {
      // Where its keeper was killed, nobody else ends what left the session.
      for (const pid of straysOf(job)) signalProcess(pid, "SIGKILL");
      return;
    }

    if (program && waitedMs >= graceMs) {
      signalSession(processTable, program, "SIGKILL");
    } else if (program && !hasAsked) {
      askToEnd(processTable, program);
      hasAsked = true;
    }
    if (waitedMs >= graceMs + KILL_WITHIN_MS) {
      throw new Failure("timeout", "the job does not end, although it was killed");
    }
    await sleep(POLL_MS);
  }
}
