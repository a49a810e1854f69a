// What the agent does with one job: launch it, follow it, look up a component's status. Each comes
// back as a value that the core decides about; a failure is a value too.

import { randomBytes } from "node:crypto";
import type { Grant, Timers } from "@exclave/api";
import { asFailure, enforcedLimits, type JobName } from "@exclave/core";
import type { JobRuntime } from "@exclave/runtime";
import type { EndedJob } from "../core/agent-state.ts";
import { stepOf } from "../core/job-record.ts";
import type { JobRecord, Journal, ScheduleEntry, SeenHealth } from "../journal/journal.ts";
import type { Log } from "../log.ts";
import { followJob } from "./follow-job.ts";
import { type KeptOutputs, wholeOutput } from "./kept-output.ts";
import { prepareJob, type Workplace } from "./prepare-job.ts";
import { afterRefusedLaunch, type Launch } from "./refused-launch.ts";
import type { Spool } from "./spool.ts";
import { startWhole } from "./start-whole.ts";
import { lookUpStatus } from "./status-job.ts";

export interface Jobs {
  launch(record: JobRecord, given: Given): Promise<Launch>;
  follow(record: JobRecord, options: FollowOptions): Promise<EndedJob>;
  /** Forgets a job whose end is journaled. */
  remove(name: JobName): Promise<void>;
  lookUpStatus(name: JobName, entry: ScheduleEntry, signal: AbortSignal): Promise<SeenHealth>;
}

/** What the server gave for this launch. */
export interface Given {
  readonly grant?: Grant | undefined;
  /** For a setup. It is not journaled, also not as something to redact. */
  readonly joinString?: string | undefined;
}

export interface FollowOptions {
  readonly signal: AbortSignal;
  readonly isCancelled: () => boolean;
  readonly onSpooled: (bytes: number) => void;
}

export interface JobsOptions {
  readonly runtime: JobRuntime;
  readonly spool: Spool;
  /** Where the output of jobs is kept whose runtime rotates it away. */
  readonly kept?: KeptOutputs | undefined;
  readonly journal: Journal;
  readonly place: Workplace;
  readonly now: () => number;
  readonly timers: Timers;
  readonly log: Log;
}

const OUTPUTS_KEY = ":outputs-key";

export function createJobs(options: JobsOptions): Jobs {
  const { runtime, spool, kept, journal, place, now, timers, log } = options;
  /** Secrets of running jobs that are in no journal: a later life of this agent leaves them to the runner. */
  const unjournaled = new Map<JobName, readonly string[]>();
  return {
    launch,
    follow,
    async remove(name) {
      await runtime.remove(name);
      await kept?.remove(name);
    },
    lookUpStatus: (name, entry, signal) => lookUpStatus(options, name, entry, signal),
  };

  async function launch(record: JobRecord, { grant, joinString }: Given): Promise<Launch> {
    const { name, manifest } = record;
    try {
      const job = { name, manifest, step: stepOf(record), grant, joinString, now: now() };
      const { spec, secrets, secretsInMemory, writes } = await prepareJob(job, place);
      if (secretsInMemory.length > 0) unjournaled.set(name, secretsInMemory);
      // Before the start: the log of a job that is found again must be redacted as it was begun, and
      // what a release's statement lists is not pulled before the statement is kept.
      journal.commit([...writes, { kind: "job_secrets", name, secrets }]);
      // An earlier life may have written that the launch failed, and crashed before that was the job's end.
      await spool.remove(name);
      await startWhole(options, job.step, spec);
      return { kind: "launched", name };
    } catch (reason) {
      const launch = await afterRefusedLaunch(options, name, asFailure(reason));
      if (launch.kind === "not_launched") unjournaled.delete(name);
      return launch;
    }
  }

  async function follow(record: JobRecord, options: FollowOptions): Promise<EndedJob> {
    const { name } = record;
    const secrets = [...journal.jobSecrets(name), ...(unjournaled.get(name) ?? [])];
    const ended = await followJob({
      runtime,
      output: (name, signal) => wholeOutput({ runtime, kept, name, signal }),
      spool,
      record,
      secrets,
      logBytesMax: logBytesMaxOf(record),
      outputsKey: outputsKey(),
      timers,
      log,
      ...options,
    });
    unjournaled.delete(name);
    return ended;
  }

  function logBytesMaxOf(record: JobRecord): number {
    const { limits } = record.manifest;
    return enforcedLimits(stepOf(record).operation, limits, place.limits).logBytesMax;
  }

  function outputsKey(): string {
    const kept = journal.secret(OUTPUTS_KEY);
    if (kept !== undefined) return kept;
    const value = randomBytes(32).toString("hex");
    journal.commit([{ kind: "secret", name: OUTPUTS_KEY, value }]);
    return value;
  }
}
