// Watches over a running job: measures what it uses, and ends it when it is over a limit.

import { fstatSync } from "node:fs";
import { directorySize } from "./directory-size.ts";
import type { JobDirectory, JobOrder } from "./job-directory.ts";
import { judgeJob, type Measured, type Verdict } from "./judge-job.ts";
import {
  askToEnd,
  createSessionWatch,
  type ProcessIdentity,
  processTable,
  signalSession,
} from "./process-table.ts";

const WATCH_EVERY_MS = 200;
const DISK_EVERY_MS = 5_000;
/** Measuring a large tree takes a while; it may not take more than a twentieth of the time. */
const DISK_SHARE = 20;

export interface JobWatch {
  /** Ends the watch and says whether it had to step in. */
  finish(): Verdict | undefined;
}

export interface WatchJob {
  readonly job: JobDirectory;
  readonly order: JobOrder;
  readonly program: ProcessIdentity;
  readonly startedAt: number;
  /** The job's output, open. */
  readonly output: number;
  readonly note: (text: string) => void;
}

export function watchJob(watched: WatchJob): JobWatch {
  const { job, order, program, startedAt, output, note } = watched;
  const members = createSessionWatch(processTable, program, () => performance.now());
  const disk = watchDisk(job, order);
  let verdict: Verdict | undefined;
  let killAt = Number.POSITIVE_INFINITY;

  const timer = setInterval(() => {
    const ranMs = performance.now() - startedAt;
    if (ranMs >= killAt) signalSession(processTable, program, "SIGKILL");
    // Past its deadline a job may still say goodbye, but not eat the machine meanwhile.
    const found = judgeJob({ ranMs, ...measure(), diskBytes: disk.bytes() }, order);
    if (!found || found.kind === verdict?.kind) return;
    verdict ??= found;
    note(`stopped: ${found.because}`);
    const asks = found.kind === "deadline";
    killAt = asks ? ranMs + order.deadlineGraceMs : ranMs;
    if (asks) askToEnd(processTable, program);
    else signalSession(processTable, program, "SIGKILL");
  }, WATCH_EVERY_MS);

  return {
    finish: () => {
      clearInterval(timer);
      disk.finish();
      return verdict;
    },
  };

  function measure(): Pick<Measured, "processes" | "memoryBytes" | "outputBytes"> {
    const { memoryBytes: allowed } = order.limits;
    const pids = members().map(({ pid }) => pid);
    let memoryBytes = processTable.residentBytes(pids);
    // The cheap figure counts shared pages for each process; nobody is ended on that alone.
    if (allowed !== undefined && memoryBytes > allowed) {
      memoryBytes = processTable.proportionalBytes(pids);
    }
    return { processes: pids.length, memoryBytes, outputBytes: fstatSync(output).size };
  }
}

function watchDisk(job: JobDirectory, { limits }: JobOrder) {
  const { diskBytesMax } = limits;
  let bytes = 0;
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  if (diskBytesMax !== undefined) schedule(DISK_EVERY_MS, diskBytesMax);

  return {
    bytes: () => bytes,
    finish: () => {
      isOver = true;
      clearTimeout(timer);
    },
  };

  function schedule(inMs: number, enough: number): void {
    if (!isOver) timer = setTimeout(() => void look(enough), inMs);
  }

  async function look(enough: number): Promise<void> {
    const since = performance.now();
    bytes = await directorySize(job.path, enough);
    schedule(Math.max(DISK_EVERY_MS, DISK_SHARE * (performance.now() - since)), enough);
  }
}
