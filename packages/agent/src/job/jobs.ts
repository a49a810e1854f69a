// What the agent does with one job: launch it, follow it, look up a component's status. Each comes
// back as a value that the core decides about; a failure is a value too.

import { randomBytes } from "node:crypto";
import type { Grant, Timers } from "@exclave/api";
import {
  type ArtifactRef,
  asFailure,
  createRedactor,
  enforcedLimits,
  Failure,
  type JobName,
  type ManifestStep,
} from "@exclave/core";
import { isContentLost } from "@exclave/oci";
import type { JobRun, JobRuntime, JobSpec } from "@exclave/runtime";
import { NOTHING_SAID } from "../core/agent-job-end.ts";
import type { AgentHappening, EndedJob } from "../core/agent-state.ts";
import { stepOf } from "../core/job-record.ts";
import type { JobRecord, Journal, ScheduleEntry, SeenHealth } from "../journal/journal.ts";
import type { Log } from "../log.ts";
import { ownPlace } from "../sandbox/own-repository.ts";
import { awaitExit, followJob } from "./follow-job.ts";
import { createJobOutput } from "./job-output.ts";
import { prepareJob, type Workplace } from "./prepare-job.ts";
import type { Spool } from "./spool.ts";

type Launch = Extract<AgentHappening, { kind: "launched" | "not_launched" }>;

export interface Jobs {
  launch(record: JobRecord, given: Given): Promise<Launch>;
  follow(record: JobRecord, options: FollowOptions): Promise<EndedJob>;
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
  readonly journal: Journal;
  readonly place: Workplace;
  readonly now: () => number;
  readonly timers: Timers;
  readonly log: Log;
}

const STATUS_DEADLINE_MS = 120_000;
const STATUS_LOG_BYTES_MAX = 64 * 1024;
const OUTPUTS_KEY = ":outputs-key";
const RUNTIME_RETRY_MS = 2_000;

export function createJobs(options: JobsOptions): Jobs {
  const { runtime, spool, journal, place, now, timers, log } = options;
  /** Secrets of running jobs that are in no journal: a later life of this agent leaves them to the runner. */
  const unjournaled = new Map<JobName, readonly string[]>();
  return { launch, follow, lookUpStatus };

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
      await startWhole(job.step, spec);
      return { kind: "launched", name };
    } catch (reason) {
      return await notLaunched(record, asFailure(reason));
    }
  }

  /** Starts it from an image that is whole: what the install's registry has lost is put back or named. */
  async function startWhole(step: ManifestStep, spec: JobSpec): Promise<void> {
    const { own } = place;
    if (!own) return runtime.start(spec);
    const plugin = ownPlace(own.registry, step.plugin);
    const isSync = step.operation === "sync";
    try {
      await runtime.start(spec);
    } catch (cause) {
      if (!isContentLost(cause)) throw cause;
      if (!isSync || !(await own.runner.restore(plugin))) throw notWhole(plugin, cause);
      log.warn("the runner was damaged in the install's registry and is put back", { cause });
      await runtime.start(spec);
    }
    if (!isSync) return;
    own.runner.pin(plugin).catch((reason: unknown) => {
      log.warn("no copy of the runner can be kept outside the registry", { reason });
    });
  }

  /** A start that failed may have started something: what runs, or ran to its end, is followed like any other. */
  async function notLaunched({ name }: JobRecord, failure: Failure): Promise<Launch> {
    const { code, message } = failure;
    const run = await untilAnswered("inspected", name, () => runtime.inspect(name));
    if (isFollowable(run)) {
      log.warn("a start that failed has started its job all the same", { job: name, code });
      return { kind: "launched", name };
    }
    unjournaled.delete(name);
    log.warn("a job could not be launched", { job: name, code, reason: failure });
    const mayHaveRun = run.kind === "exited";
    // Stopped and not removed: until its end is journaled, its trace is what keeps it from a second start.
    await untilAnswered("stopped", name, () => runtime.stop(name, 0));
    // Without room for a log the job still has its end.
    const said = await spoolLine(name, `failed: ${message}\n`).catch(() => NOTHING_SAID);
    return { kind: "not_launched", name, why: { code, message, mayHaveRun, ...said } };
  }

  /** An end that is told while the job runs on would be a lie: the runtime is asked until it answers. */
  async function untilAnswered<Value>(
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

  async function spoolLine(name: JobName, text: string) {
    const writer = await spool.write(name);
    try {
      await writer.append(Buffer.from(text));
      const { bytes, sha256 } = await writer.finish();
      return { logBytes: bytes, logSha256: sha256 };
    } finally {
      await writer.release();
    }
  }

  async function follow(record: JobRecord, options: FollowOptions): Promise<EndedJob> {
    const { name } = record;
    const secrets = [...journal.jobSecrets(name), ...(unjournaled.get(name) ?? [])];
    const ended = await followJob({
      runtime,
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

  async function lookUpStatus(
    name: JobName,
    { manifest, component }: ScheduleEntry,
    signal: AbortSignal,
  ): Promise<SeenHealth> {
    try {
      return await runStatus(name, manifest, signal);
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
    name: JobName,
    applied: ScheduleEntry["manifest"],
    signal: AbortSignal,
  ): Promise<SeenHealth> {
    const manifest = { ...(await place.gate.statusOf(applied)), deadlineMs: STATUS_DEADLINE_MS };
    const [step] = manifest.steps;
    if (!step) throw new TypeError("an applied manifest has a step");
    const job = { name, manifest, step, now: now() };
    const { spec, secrets, writes } = await prepareJob(job, place);
    journal.commit(writes);
    await startWhole(step, spec);

    const reader = createJobOutput({ secrets, logBytesMax: STATUS_LOG_BYTES_MAX });
    for await (const chunk of runtime.output(name, 0, signal)) reader.read(chunk);
    reader.end();
    await awaitExit({ runtime, timers, signal }, name);
    return seenHealth(reader.collected.result, createRedactor(secrets));
  }
}

function notWhole({ repository, digest }: ArtifactRef, cause: Failure): Failure {
  const message = `${repository}@${digest} is not whole in the install's registry: ${cause.message}`;
  return new Failure("not_synced", message, { cause });
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

/** Its output and its exit are there to be read. */
function isFollowable(run: JobRun): boolean {
  return run.kind === "running" || (run.kind === "exited" && run.exit.kind !== "lost");
}
