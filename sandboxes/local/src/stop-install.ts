// Stops everything that runs in an install's home, and leaves nothing running: the supervisor, which
// does it itself when it is alive, or each part from here when it is not.

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { isRunning, signalProcess } from "@exclave/plugin-sdk";
import type { Home } from "./home.ts";
import { ended, runningProcess, stopProcess } from "./process-record.ts";
import { stopRunEntries } from "./run-entries.ts";
import { stopJobs } from "./stop-jobs.ts";

export const GRACE_MS = 10_000;
/** Agent, jobs, services and registry, each with its grace, one after the other. */
const SUPERVISOR_GRACE_MS = 9 * GRACE_MS;

export interface StopInstallOptions {
  readonly home: Home;
  readonly log: (message: string) => void;
  readonly graceMs?: number;
}

export async function stopInstall(options: StopInstallOptions): Promise<void> {
  const { home, log, graceMs = GRACE_MS } = options;
  const supervisor = await runningProcess(supervisorRecord(home));
  if (supervisor) {
    log("stopping the install");
    signalProcess(supervisor.pid, "SIGTERM");
    if (!(await ended(supervisor, SUPERVISOR_GRACE_MS)) && isRunning(supervisor)) {
      log("the supervisor did not end by itself and is killed");
      signalProcess(supervisor.pid, "SIGKILL");
      await ended(supervisor, Number.POSITIVE_INFINITY);
    }
  }
  // Whoever watches over supervisors starts none again that took its record away.
  await rm(supervisorRecord(home), { force: true });
  // After a supervisor that ended as it should this finds nothing.
  await stopRecorded(home, "agent", graceMs);
  await stopJobs(home.runtime, graceMs, log);
  await stopRunEntries({ directory: home.run, log }, graceMs);
  await stopRecorded(home, "registry", graceMs);
}

async function stopRecorded(home: Home, name: "agent" | "registry", graceMs: number) {
  const found = await runningProcess(childRecord(home, name));
  if (found) await stopProcess(found, { graceMs });
}

export function supervisorRecord({ processes }: Home): string {
  return join(processes, "init.json");
}

export function childRecord({ processes }: Home, name: "agent" | "registry"): string {
  return join(processes, `${name}.json`);
}
