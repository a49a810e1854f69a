// Follows one job to its end: its output into the spool, its meaning into a result. It can be begun
// again at any time, from the first byte, and comes to the same end.

import { createHmac } from "node:crypto";
import type { Timers } from "@exclave/api";
import { canonicalJson, type JobExit, type JobName, judgeEnd } from "@exclave/core";
import type { JobRuntime } from "@exclave/runtime";
import type { EndedJob } from "../core/agent-state.ts";
import { stepOf } from "../core/job-record.ts";
import type { JobRecord, KeptOutput } from "../journal/journal.ts";
import type { Log } from "../log.ts";
import { createJobOutput, type JobOutputReader } from "./job-output.ts";
import type { Spool, SpoolWriter } from "./spool.ts";

const RETRY_MS = 2_000;
const INSPECT_MS = 200;

export interface FollowJob {
  readonly runtime: JobRuntime;
  /** All the job says, from its first byte. */
  readonly output: (name: JobName, signal: AbortSignal) => AsyncIterable<Uint8Array>;
  readonly spool: Spool;
  readonly record: JobRecord;
  readonly secrets: readonly string[];
  /** More log than this is left out. */
  readonly logBytesMax: number;
  /** Keys the digest of outputs, so that it tells "changed" and nothing else. */
  readonly outputsKey: string;
  /** Asked at the end, because the wish may come while it runs. */
  readonly isCancelled: () => boolean;
  readonly onSpooled: (bytes: number) => void;
  readonly signal: AbortSignal;
  readonly timers: Timers;
  readonly log: Log;
}

export async function followJob(job: FollowJob): Promise<EndedJob> {
  const { spool, record, secrets, signal } = job;
  const { logBytesMax } = job;
  const reader = createJobOutput({ secrets, logBytesMax });
  const writer = await spool.write(record.name);
  try {
    for await (const chunk of job.output(record.name, signal)) {
      await keep(job, writer, reader.read(chunk));
    }
    signal.throwIfAborted();
    const exit = await awaitExit(job, record.name);
    await keep(job, writer, reader.end());
    const { bytes: logBytes, sha256: logSha256 } = await writer.finish();

    return { ...readEnd(job, reader, exit), logBytes, logSha256 };
  } finally {
    await writer.release();
  }
}

function readEnd(
  job: FollowJob,
  { collected }: JobOutputReader,
  exit: JobExit,
): Omit<EndedJob, "logBytes" | "logSha256"> {
  const { record, outputsKey } = job;
  const { result, artifacts, refused, report } = collected;
  const outputs = [...collected.outputs.values()]
    .map(({ name, value, sensitive }): KeptOutput => ({ name, value, sensitive }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const effect = stepOf(record).effect;
  const outcome = judgeEnd({ exit, result, isCancelled: job.isCancelled(), effect, refused });
  const outputsDigest = digestOfOutputs(outputs, outputsKey);
  return { outcome, outputs, outputsDigest, artifacts, result, report };
}

/** Waits for room rather than lose a log or a result: a full disk ends some day. */
async function keep(job: FollowJob, writer: SpoolWriter, text: string): Promise<void> {
  if (text === "") return;
  const bytes = Buffer.from(text);
  for (let isTold = false; ; isTold = true) {
    try {
      await writer.append(bytes);
      job.onSpooled(writer.bytes);
      return;
    } catch (reason) {
      if (!isTold) job.log.warn("a log cannot be spooled; waiting for room", { reason });
      await job.timers.sleep(RETRY_MS, job.signal);
    }
  }
}

export async function awaitExit(
  { runtime, timers, signal }: Pick<FollowJob, "runtime" | "timers" | "signal">,
  name: JobName,
): Promise<JobExit> {
  while (true) {
    const run = await runtime.inspect(name);
    if (run.kind === "exited") return run.exit;
    if (run.kind === "absent") return { kind: "lost", because: "the runtime forgot it" };
    await timers.sleep(INSPECT_MS, signal);
  }
}

export function digestOfOutputs(outputs: readonly KeptOutput[], key: string): string {
  return `hmac-sha256:${createHmac("sha256", key).update(canonicalJson(outputs)).digest("hex")}`;
}
