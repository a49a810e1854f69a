// What is known of a job, from the files in its directory and the processes there are.

import type { JobExit, JobRun } from "../job-runtime.ts";
import {
  isThere,
  type JobClaim,
  type JobDirectory,
  readClaim,
  readExit,
  readProgram,
} from "./job-directory.ts";
import { isAlive, processTable, sessionMembers } from "./process-table.ts";

export function inspectJob(job: JobDirectory): JobRun {
  if (!isThere(job.order)) return { kind: "absent" };
  const exited = exitedRun(job);
  if (exited) return exited;
  const claim = readClaim(job);
  if (!claim) return { kind: "waiting", because: "no keeper has taken it yet" };
  if (isKept(claim) || hasProcesses(job)) return { kind: "running" };
  // Looked at once more: it may have ended, and been written down, since the first look.
  return exitedRun(job) ?? { kind: "exited", exit: lost(claim) };
}

function exitedRun(job: JobDirectory): JobRun | undefined {
  const record = readExit(job);
  return record && { kind: "exited", exit: record.exit };
}

function isKept({ keeper }: JobClaim): boolean {
  return keeper !== undefined && isAlive(processTable, keeper);
}

/** Without a keeper, but still there: it must not be called over while it may act. */
function hasProcesses(job: JobDirectory): boolean {
  const program = readProgram(job);
  return program !== undefined && sessionMembers(processTable, program).length > 0;
}

function lost({ keeper }: JobClaim): JobExit {
  if (!keeper) return { kind: "lost", because: "it was stopped before it ran" };
  const because =
    keeper.bootId === processTable.bootId()
      ? "its keeper was killed before it could write down the end"
      : "the machine was restarted while it ran";
  return { kind: "lost", because };
}
