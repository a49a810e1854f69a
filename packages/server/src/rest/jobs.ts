import { cancelJob, getJob, getJobLog, listJobs } from "@exclave/api";
import { Failure, isSettled } from "@exclave/core";
import type { ServerContext } from "../context.ts";
import { knownInstall } from "../install/known-install.ts";
import { cancelJob as stopJob } from "../job/cancel-job.ts";
import { viewJob } from "../job/job-view.ts";
import type { JobRow } from "../store/rows.ts";
import type { JobQuery, Readers } from "../store/store.ts";
import { drained } from "./drained.ts";
import { type Handler, handler, streamHandler } from "./handler.ts";
import { inTurns } from "./in-turns.ts";

export const JOB_HANDLERS: readonly Handler[] = [
  handler(listJobs, async ({ query, context, charge }) => {
    const { install, ...rest } = query;
    const whose = install === undefined ? {} : await whoseJobs(context.store.read, install);
    const { items, next } = await context.store.read.jobs.find({ ...rest, ...whose });
    return { items: await inTurns(items, charge, (job) => viewJob(context, job)), next };
  }),

  handler(getJob, async ({ params, context }) =>
    viewJob(context, await knownJob(context.store.read, params.job)),
  ),

  handler(cancelJob, async ({ params, body, caller, context }) => {
    const asked = { id: params.job, graceMs: body.graceMs, by: caller.name };
    return viewJob(context, await stopJob(context, asked));
  }),

  streamHandler(getJobLog, async ({ params, query, reply, context, charge }) => {
    const job = await knownJob(context.store.read, params.job);
    const gone = new AbortController();
    const leave = context.followers.enter(job);
    reply.raw.once("close", () => {
      gone.abort();
      leave();
    });
    reply.hijack();
    reply.raw.writeHead(200, {
      "content-type": "text/plain; charset=utf-8",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
    });
    reply.raw.flushHeaders();
    for await (const chunk of logBytes(context, job, query, gone.signal)) {
      charge(chunk.length / STREAMED_UNIT_BYTES);
      if (!reply.raw.write(chunk)) await drained(reply.raw, gone.signal);
    }
    reply.raw.end();
  }),
];

/** What a log costs its reader: a megabyte of it is about a millisecond. */
const STREAMED_UNIT_BYTES = 1024 * 1024;

/** Of an install: its own agent's, and the setup agent's about it. */
async function whoseJobs(
  read: Readers,
  install: string,
): Promise<Pick<JobQuery, "install" | "audience">> {
  if (install === "build" || install === "setup") return { audience: install };
  return { install: (await knownInstall(read, install)).id };
}

async function* logBytes(
  context: ServerContext,
  { id, attempt }: JobRow,
  { from, follow }: { readonly from: number; readonly follow: boolean },
  signal: AbortSignal,
): AsyncIterable<Uint8Array> {
  const { store, logs } = context;
  let offset = from;
  for (let job: JobRow | undefined; ; attempt = job.attempt) {
    // Before the look: what changes during it is noticed.
    using change = follow ? awaitChange(context, id, attempt, signal) : undefined;
    // Looked at before the bytes: what ends in between is read by one more round.
    job = await store.read.jobs.get(id);
    if (!job) return;
    for await (const chunk of logs.read(job.id, job.attempt, offset)) {
      offset += chunk.length;
      yield chunk;
    }
    const leftOut = logs.leftOutBytes(await logs.sizeBytes(job.id, job.attempt));
    if (!follow || signal.aborted || isAllThere(job, offset + leftOut)) {
      if (leftOut > 0) yield gapNote(leftOut);
      return;
    }
    await change?.happened;
  }
}

/** A notice may be lost with the server that gave it: then a reader waits for so long. */
const LOOK_AGAIN_MS = 10_000;

interface Change extends Disposable {
  readonly happened: Promise<unknown>;
}

/** The log has grown, or something became of the job. */
function awaitChange(
  { logs, live }: Pick<ServerContext, "logs" | "live">,
  id: string,
  attempt: number,
  gone: AbortSignal,
): Change {
  const over = new AbortController();
  const late = setTimeout(() => over.abort(), LOOK_AGAIN_MS).unref();
  const signal = AbortSignal.any([over.signal, gone]);
  const happened = Promise.race([logs.grown(id, attempt, signal), live.next(id, signal)]);
  return {
    happened,
    [Symbol.dispose]() {
      clearTimeout(late);
      over.abort();
    },
  };
}

function gapNote(bytes: number): Uint8Array {
  return Buffer.from(`[${bytes} bytes of log are over the server's limit and were left out]\n`);
}

function isAllThere({ state, log }: JobRow, offset: number): boolean {
  return isSettled(state) && offset >= (log?.bytes ?? 0);
}

async function knownJob({ jobs }: Pick<Readers, "jobs">, id: string): Promise<JobRow> {
  const job = await jobs.get(id);
  if (!job) throw new Failure("not_found", `there is no job ${id}`);
  return job;
}
