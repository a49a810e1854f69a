// Ends the jobs of an install that is being stopped. Jobs outlive their agent on purpose, so somebody
// else has to end them: each is asked, then killed, and its keeper writes down how it ended, for the
// agent to find when it is back. The files are those of the process runtime.

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { runningProcess, stopProcess } from "./process-record.ts";

/** A keeper cleans up after its job for a moment before it ends. */
const KEEPER_GRACE_MS = 5_000;

export async function stopJobs(
  runtimeDirectory: string,
  graceMs: number,
  log: (message: string) => void,
): Promise<void> {
  const jobs = join(runtimeDirectory, "jobs");
  const names = await readdir(jobs).catch(() => []);
  await Promise.all(
    names.map(async (name) => {
      const program = await runningProcess(join(jobs, name, "program.json"));
      if (program) {
        log(`asking job ${name} to stop`);
        await stopProcess(program, { graceMs, isGroup: true });
      }
      // Keepers do not listen to SIGTERM: they end with their job and not before.
      const keeper = await runningProcess(join(jobs, name, "claim.json"), "keeper");
      if (keeper) await stopProcess(keeper, { graceMs: KEEPER_GRACE_MS });
    }),
  );
}
