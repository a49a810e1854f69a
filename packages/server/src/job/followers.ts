// Who reads a job's log as it grows. A log request or a debug command is there for its reader: when the
// last one has gone and none comes back within a grace time, as a client that reconnects does, the job
// is asked to stop instead of running on to its deadline. Readers may be at several servers: each says from time to
// time which jobs are read there.

import { asFailure, isSettled } from "@exclave/core";
import type { ServerContext } from "../context.ts";
import type { JobRow } from "../store/rows.ts";
import { cancelJob } from "./cancel-job.ts";

export interface Followers {
  /** Counts a reader of the job's log; what is returned takes it off again. */
  enter(job: Pick<JobRow, "id" | "operation" | "purpose">): () => void;
  /** Of these nobody may be known to follow them, as after a start: a reader has the grace time to come. */
  expect(jobs: readonly Pick<JobRow, "id" | "operation" | "purpose">[]): void;
  /** Somebody reads it at another server: the grace time begins anew. */
  heard(id: string): void;
  stop(): void;
}

export interface FollowersOptions {
  readonly graceMs: number;
  /** Nobody has followed the job for that long. */
  readonly onAbandoned: (id: string) => Promise<void>;
  /** Tells other servers that the job has a reader here. */
  readonly tell?: (id: string) => void;
}

export const FOLLOWER_GRACE_MS = 30_000;

export function createFollowers(options: FollowersOptions): Followers {
  const { graceMs, onAbandoned, tell = () => undefined } = options;
  const counts = new Map<string, number>();
  const timers = new Map<string, NodeJS.Timeout>();
  // Often enough that one that is lost does no harm.
  const telling = setInterval(tellAll, graceMs / 4).unref();
  let isStopped = false;

  return {
    enter(job) {
      if (!isForReader(job)) return () => {};
      const { id } = job;
      counts.set(id, (counts.get(id) ?? 0) + 1);
      tell(id);
      clearTimeout(timers.get(id));
      timers.delete(id);
      let isIn = true;
      return () => {
        if (!isIn) return;
        isIn = false;
        leave(id);
      };
    },
    expect(jobs) {
      // A debug command may be meant to run without a reader; a followed log never is.
      for (const job of jobs) {
        const isAwaited = counts.has(job.id) || timers.has(job.id);
        if (isForReader(job) && job.operation === "logs" && !isAwaited) wait(job.id);
      }
    },
    heard(id) {
      if (timers.has(id)) wait(id);
    },
    stop() {
      isStopped = true;
      clearInterval(telling);
      for (const timer of timers.values()) clearTimeout(timer);
      timers.clear();
    },
  };

  function tellAll(): void {
    for (const id of counts.keys()) tell(id);
  }

  function leave(id: string): void {
    const left = (counts.get(id) ?? 1) - 1;
    if (left > 0) counts.set(id, left);
    else counts.delete(id);
    if (left <= 0) wait(id);
  }

  function wait(id: string): void {
    if (isStopped) return;
    clearTimeout(timers.get(id));
    const timer = setTimeout(() => {
      timers.delete(id);
      void onAbandoned(id);
    }, graceMs);
    timers.set(id, timer.unref());
  }
}

function isForReader({ purpose, operation }: Pick<JobRow, "operation" | "purpose">): boolean {
  return purpose.kind === "request" && (operation === "logs" || operation === "exec");
}

/** Asks a job that nobody follows to stop; one that has ended needs no asking. */
export async function stopAbandoned(context: ServerContext, id: string): Promise<void> {
  try {
    const job = await context.store.read.jobs.get(id);
    if (!job || isSettled(job.state)) return;
    await cancelJob(context, { id, graceMs: STOP_GRACE_MS, by: "server" });
  } catch (reason) {
    if (asFailure(reason).code === "conflict") return;
    context.log.error({ reason, job: id }, "a job that nobody follows could not be stopped");
  }
}

const STOP_GRACE_MS = 10_000;
