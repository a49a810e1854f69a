// Runs each job as a process group under a keeper of its own, in a directory of its own. For
// development and single-machine installs: jobs outlive the agent, but they run as its user and
// share its file system, so this driver separates jobs from each other by courtesy, not by force.

import { rename, rm } from "node:fs/promises";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { asFailure, Failure, JobName } from "@exclave/core";
import type { JobRun, JobRuntime, JobSpec, RuntimeCapabilities } from "../job-runtime.ts";
import { unenforcedLimits } from "../unenforced-limits.ts";
import { createDraft, namesIn, sweepDrafts } from "./draft-directory.ts";
import { endProgram } from "./end-program.ts";
import { followOutput } from "./follow-output.ts";
import { createImageCache, type ImageSource } from "./image-cache.ts";
import { inspectJob } from "./inspect-job.ts";
import {
  claimJob,
  isThere,
  type JobDirectory,
  jobDirectory,
  writeRecord,
} from "./job-directory.ts";
import { type JobPlaces, layOutJob } from "./job-layout.ts";
import { launchKeeper } from "./launch-keeper.ts";
import { processTable } from "./process-table.ts";
import { createTreeSeals, type TreeSeals } from "./tree-seal.ts";

export interface ProcessRuntimeOptions extends JobPlaces {
  readonly openImage: ImageSource;
  /** Shared with whoever unpacks, so that what both link to is hashed once. */
  readonly seals?: TreeSeals;
  /** Told before an unpacked image that somebody changed is thrown away and unpacked again. */
  readonly onImageChanged?: (because: string) => Promise<void>;
  readonly nodePath?: string;
  readonly keeperPath?: string;
}

const TYPE = "process";
const CAPABILITIES: RuntimeCapabilities = {
  /** A job is watched by its keeper; nothing here can keep it from taking a processor. */
  limits: {
    memoryBytes: "watched",
    processesMax: "watched",
    cpus: "none",
    logBytesMax: "watched",
    diskBytesMax: "watched",
  },
  isolates: { network: false, files: false },
  identities: false,
  output: "kept",
  streams: "ordered",
  stoppedExit: "known",
  leavesPrograms: true,
};
const REMOVE_GRACE_MS = 5_000;

export function createProcessRuntime(options: ProcessRuntimeOptions): JobRuntime {
  const { directory } = options;
  const jobs = join(directory, "jobs");
  const images = createImageCache({
    directory: join(directory, "images"),
    source: options.openImage,
    seals: options.seals ?? createTreeSeals(),
    onChanged: options.onImageChanged,
  });
  const keeper = {
    nodePath: options.nodePath ?? process.execPath,
    keeperPath: options.keeperPath ?? defaultKeeperPath(),
  };
  const starting = new Map<JobName, Promise<void>>();
  let swept: Promise<void> | undefined;

  return { type: TYPE, capabilities: CAPABILITIES, start, inspect, output, stop, remove, list };

  async function start(spec: JobSpec): Promise<void> {
    const earlier = starting.get(spec.name);
    if (earlier) return earlier;
    const started = launch(spec)
      .catch((reason: unknown) => {
        throw startFailure(spec.name, reason);
      })
      .finally(() => starting.delete(spec.name));
    starting.set(spec.name, started);
    return started;
  }

  async function launch(spec: JobSpec): Promise<void> {
    swept ??= sweep();
    await swept;
    const job = place(spec.name);
    if (!isThere(job.order)) {
      const image = await images.get(spec.image);
      const notes = unenforcedLimits(TYPE, CAPABILITIES.limits, spec.limits);
      await layOutJob({ ...options, jobs }, { spec, image, job, notes });
    }
    // Also heals a crash between the two: without a claim nothing of the job has ever run.
    if (!isThere(job.claim)) await launchKeeper(job, keeper);
  }

  async function inspect(name: JobName): Promise<JobRun> {
    return inspectJob(place(name));
  }

  async function* output(
    name: JobName,
    from: number,
    signal: AbortSignal,
  ): AsyncIterable<Uint8Array> {
    const job = place(name);
    if (inspectJob(job).kind === "absent") {
      throw new Failure("not_found", `there is no job ${name} here`);
    }
    const hasEnded = async () => {
      const { kind } = inspectJob(job);
      return kind === "exited" || kind === "absent";
    };
    yield* followOutput(job.output, { from, signal, hasEnded });
  }

  async function stop(name: JobName, graceMs: number): Promise<void> {
    const job = place(name);
    if (!isThere(job.order)) return;
    // Taken before any keeper did: it has not run and never will.
    if (!isThere(job.claim) && claimJob(job, {})) {
      writeRecord(job.exit, { exit: { kind: "signal", signal: "SIGTERM" }, endedAt: Date.now() });
      return;
    }
    await endProgram(job, graceMs);
  }

  async function remove(name: JobName): Promise<void> {
    const job = place(name);
    if (!isThere(job.path)) return;
    await stop(name, REMOVE_GRACE_MS);
    // Out of sight in one step, so that no half-removed job is ever found.
    const grave = await createDraft(jobs);
    await rename(job.path, join(grave, name));
    await rm(grave, { recursive: true, force: true });
  }

  async function list(): Promise<JobName[]> {
    const names = await namesIn(jobs);
    return names.flatMap((name) => JobName.safeParse(name).data ?? []).sort();
  }

  function place(name: JobName): JobDirectory {
    // Parsed again because it becomes a path.
    return jobDirectory(join(jobs, JobName.parse(name)));
  }

  async function sweep(): Promise<void> {
    for (const parent of [jobs, join(directory, "images")]) {
      await sweepDrafts(parent, (pid) => processTable.find(pid) !== undefined);
    }
  }
}

/** Beside this file and of its kind: .ts in the sources, .js when compiled, .mjs when bundled. */
function defaultKeeperPath(): string {
  const self = fileURLToPath(import.meta.url);
  return join(dirname(self), `keeper${extname(self)}`);
}

function startFailure(name: JobName, reason: unknown): Failure {
  if (reason instanceof Failure) return reason;
  const { code } = reason as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new Failure("disk_full", `there is no room to start ${name}`, { cause: reason });
  }
  if (typeof code === "string") {
    const because = `the place where jobs live cannot be used (${code})`;
    return new Failure("unavailable", `cannot start ${name}: ${because}`, { cause: reason });
  }
  return asFailure(reason);
}
