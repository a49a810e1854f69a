// What the agent does with one job: launch it, follow it, look up a component's status. Each comes
// back as a value that the core decides about; a failure is a value too.

import { randomBytes } from "node:crypto";
import type { Grant } from "@exclave/api";
import { asFailure, createRedactor, type Failure, type JobName } from "@exclave/core";
import type { JobRuntime } from "@exclave/runtime";
import { NOTHING_SAID } from "./core/agent-jobs.ts";
import type { AgentHappening, EndedJob } from "./core/agent-state.ts";
import { stepOf } from "./core/job-record.ts";
import { awaitExit, followJob } from "./follow-job.ts";
import { createJobOutput } from "./job-output.ts";
import type { JobRecord, Journal, ScheduleEntry, SeenHealth } from "./journal/journal.ts";
import type { Log } from "./log.ts";
import { prepareJob, type Workplace } from "./prepare-job.ts";
import type { Spool } from "./spool.ts";

type Launch = Extract<AgentHappening, { kind: "launched" | "not_launched" }>;

export interface Jobs {
  launch(record: JobRecord, grant: Grant | undefined): Promise<Launch>;
  follow(record: JobRecord, options: FollowOptions): Promise<EndedJob>;
  lookUpStatus(name: JobName, entry: ScheduleEntry, signal: AbortSignal): Promise<SeenHealth>;
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
  readonly log: Log;
}

const STATUS_DEADLINE_MS = 120_000;
const STATUS_LOG_BYTES_MAX = 64 * 1024;
const OUTPUTS_KEY = ":outputs-key";

export function createJobs({ runtime, spool, journal, place, now, log }: JobsOptions): Jobs {
  return { launch, follow, lookUpStatus };

  async function launch(record: JobRecord, grant: Grant | undefined): Promise<Launch> {
    const { name, manifest } = record;
    try {
      const job = { name, manifest, step: stepOf(record), grant, now: now() };
      const { spec, secrets } = await prepareJob(job, place);
      // Before the start: the log of a job that is found again must be redacted as it was begun.
      journal.commit([{ kind: "job_secrets", name, secrets }]);
      await runtime.start(spec);
      return { kind: "launched", name };
    } catch (reason) {
      return await notLaunched(record, asFailure(reason));
    }
  }

  /** A start that failed may have started something: it is made sure that nothing of it runs. */
  async function notLaunched({ name }: JobRecord, failure: Failure): Promise<Launch> {
    const { code, message } = failure;
    log.warn("a job could not be launched", { job: name, code, reason: failure });
    await runtime.remove(name).catch((reason: unknown) => {
      log.warn("a job that did not start cannot be removed", { job: name, reason });
    });
    // Without room for a log the job still has its end.
    const said = await spoolLine(name, `failed: ${message}\n`).catch(() => NOTHING_SAID);
    return { kind: "not_launched", name, why: { code, message, ...said } };
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
    const secrets = journal.jobSecrets(record.name);
    const ended = await followJob({
      runtime,
      spool,
      record,
      secrets,
      outputsKey: outputsKey(),
      log,
      ...options,
    });
    return stepOf(record).operation === "sync" ? confirmSync(record, ended) : ended;
  }

  /** What a sync brought counts only if it was released: signed, and listed in what was signed. */
  async function confirmSync(record: JobRecord, ended: EndedJob): Promise<EndedJob> {
    if (ended.outcome.kind !== "succeeded" || !place.own) return ended;
    const { materials, releases = [] } = stepOf(record);
    const brought = materials.filter(
      (ref) => !releases.some(({ digest }) => digest === ref.digest),
    );
    try {
      await place.own.released(releases, brought);
      return ended;
    } catch (reason) {
      const { code, message } = asFailure(reason);
      log.warn("what a sync brought does not count", { job: record.name, code, reason });
      return { ...ended, result: undefined, outcome: { kind: "failed", code, message } };
    }
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
    const [step] = applied.steps;
    if (!step) throw new TypeError("an applied manifest has a step");
    const manifest = { ...applied, deadlineMs: STATUS_DEADLINE_MS };
    const status = { ...step, operation: "status" as const, parameters: {} };
    const { spec, secrets } = await prepareJob({ name, manifest, step: status, now: now() }, place);
    await runtime.start(spec);

    const reader = createJobOutput({ secrets, logBytesMax: STATUS_LOG_BYTES_MAX });
    for await (const chunk of runtime.output(name, 0, signal)) reader.read(chunk);
    reader.end();
    await awaitExit(runtime, name, signal);
    return seenHealth(reader.collected.result, createRedactor(secrets));
  }
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
