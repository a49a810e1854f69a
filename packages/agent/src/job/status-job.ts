// A look at a component's status: a short job of the agent's own, from the manifest that was applied.

import type { Timers } from "@exclave/api";
import { asFailure, createRedactor, type JobName } from "@exclave/core";
import type { JobRuntime } from "@exclave/runtime";
import type { Journal, ScheduleEntry, SeenHealth } from "../journal/journal.ts";
import type { Log } from "../log.ts";
import { awaitExit } from "./follow-job.ts";
import { createJobOutput } from "./job-output.ts";
import { prepareJob, type Workplace } from "./prepare-job.ts";
import { startWhole } from "./start-whole.ts";

export interface StatusJobOptions {
  readonly runtime: JobRuntime;
  readonly journal: Journal;
  readonly place: Workplace;
  readonly now: () => number;
  readonly timers: Timers;
  readonly log: Log;
}

const DEADLINE_MS = 120_000;
const LOG_BYTES_MAX = 64 * 1024;

/** A look that fails is a status too: unknown, and why. */
export async function lookUpStatus(
  options: StatusJobOptions,
  name: JobName,
  { manifest, component }: ScheduleEntry,
  signal: AbortSignal,
): Promise<SeenHealth> {
  const { runtime, log } = options;
  try {
    return await runStatus(options, name, manifest, signal);
  } catch (reason) {
    const { code, message } = asFailure(reason);
    log.warn("a status could not be looked up", { component, reason });
    return { health: "unknown", because: message, code };
  } finally {
    await runtime.remove(name).catch((reason: unknown) => {
      log.warn("a status job cannot be removed", { job: name, reason });
    });
  }
}

async function runStatus(
  options: StatusJobOptions,
  name: JobName,
  applied: ScheduleEntry["manifest"],
  signal: AbortSignal,
): Promise<SeenHealth> {
  const { runtime, journal, place, now, timers } = options;
  const manifest = { ...(await place.gate.statusOf(applied)), deadlineMs: DEADLINE_MS };
  const [step] = manifest.steps;
  if (!step) throw new TypeError("an applied manifest has a step");
  const job = { name, manifest, step, now: now() };
  const { spec, secrets, writes } = await prepareJob(job, place);
  journal.commit(writes);
  await startWhole(options, step, spec);

  const reader = createJobOutput({ secrets, logBytesMax: LOG_BYTES_MAX });
  for await (const chunk of runtime.output(name, 0, signal)) reader.read(chunk);
  reader.end();
  await awaitExit({ runtime, timers, signal }, name);
  return seenHealth(reader.collected.result, createRedactor(secrets));
}

function seenHealth(
  result: ReturnType<typeof createJobOutput>["collected"]["result"],
  redact: (text: string) => string,
): SeenHealth {
  if (!result) return { health: "unknown", because: "the status job left no result" };
  const { ok, failure, health = "unknown", because = "", drift } = result;
  if (!ok) {
    const failed = {
      health: "unknown",
      because: redact(failure?.message ?? "the status job failed"),
    } as const;
    return failure ? { ...failed, code: failure.code } : failed;
  }
  const seen = { health, because: redact(because) };
  return drift ? { ...seen, drift: { ...drift, summary: redact(drift.summary) } } : seen;
}
