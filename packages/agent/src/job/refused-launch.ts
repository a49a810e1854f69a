// What became of a job whose start failed: a start that failed may have started something.

import type { Timers } from "@exclave/api";
import type { Failure, JobName } from "@exclave/core";
import type { JobRun, JobRuntime } from "@exclave/runtime";
import { NOTHING_SAID } from "../core/agent-job-end.ts";
import type { AgentHappening } from "../core/agent-state.ts";
import type { Log } from "../log.ts";
import type { Spool } from "./spool.ts";

export type Launch = Extract<AgentHappening, { kind: "launched" | "not_launched" }>;

export interface RefusedLaunchOptions {
  readonly runtime: JobRuntime;
  readonly spool: Spool;
  readonly timers: Timers;
  readonly log: Log;
}

const RUNTIME_RETRY_MS = 2_000;

/** What runs, or ran to its end, is followed like any other. */
export async function afterRefusedLaunch(
  options: RefusedLaunchOptions,
  name: JobName,
  failure: Failure,
): Promise<Launch> {
  const { runtime, spool, log } = options;
  const { code, message } = failure;
  const run = await untilAnswered(options, "inspected", name, () => runtime.inspect(name));
  if (isFollowable(run)) {
    log.warn("a start that failed has started its job all the same", { job: name, code });
    return { kind: "launched", name };
  }
  log.warn("a job could not be launched", { job: name, code, reason: failure });
  const mayHaveRun = run.kind === "exited";
  // Stopped and not removed: until its end is journaled, its trace is what keeps it from a second start.
  await untilAnswered(options, "stopped", name, () => runtime.stop(name, 0));
  // Without room for a log the job still has its end.
  const said = await spoolLine(spool, name, `failed: ${message}\n`).catch(() => NOTHING_SAID);
  return { kind: "not_launched", name, why: { code, message, mayHaveRun, ...said } };
}

/** An end that is told while the job runs on would be a lie: the runtime is asked until it answers. */
async function untilAnswered<Value>(
  { timers, log }: RefusedLaunchOptions,
  what: string,
  job: JobName,
  ask: () => Promise<Value>,
): Promise<Value> {
  for (;;) {
    try {
      return await ask();
    } catch (reason) {
      log.warn(`a job that did not start cannot be ${what}; retrying`, { job, reason });
      await timers.sleep(RUNTIME_RETRY_MS);
    }
  }
}

/** Its output and its exit are there to be read. */
function isFollowable(run: JobRun): boolean {
  return run.kind === "running" || (run.kind === "exited" && run.exit.kind !== "lost");
}

async function spoolLine(spool: Spool, name: JobName, text: string) {
  const writer = await spool.write(name);
  try {
    await writer.append(Buffer.from(text));
    const { bytes, sha256 } = await writer.finish();
    return { logBytes: bytes, logSha256: sha256 };
  } finally {
    await writer.release();
  }
}
