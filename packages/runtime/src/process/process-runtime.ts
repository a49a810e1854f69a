// Runs each job as a process group under a keeper of its own, in a directory of its own. For
// development and single-machine installs: jobs outlive the agent, but they run as its user and
// share its file system, so this driver separates jobs from each other by courtesy, not by force.

import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, extname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { asFailure, Failure, JOB_ENVIRONMENT, JobName } from "@exclave/core";
import { syncDirectorySync } from "@exclave/machine/durable-files-sync";
import type { JobRun, JobRuntime, JobSpec, LimitEnforcement } from "../job-runtime.ts";
import { unenforcedLimits } from "../unenforced-limits.ts";
import { createDraft, namesIn, renameUnlessThere, sweepDrafts } from "./draft-directory.ts";
import { followOutput } from "./follow-output.ts";
import { createImageCache, type ImageSource, type UnpackedImage } from "./image-cache.ts";
import { imageCommand, imageEnvironment } from "./image-command.ts";
import { inspectJob } from "./inspect-job.ts";
import {
  claimJob,
  isThere,
  type JobDirectory,
  type JobOrder,
  jobDirectory,
  readProgram,
  writeRecord,
} from "./job-directory.ts";
import { launchKeeper } from "./launch-keeper.ts";
import {
  askToEnd,
  processTable,
  sessionMembers,
  signalProcess,
  signalSession,
} from "./process-table.ts";
import { straysOf } from "./strays.ts";
import { createTreeSeals, type TreeSeals } from "./tree-seal.ts";

export interface ProcessRuntimeOptions {
  /** Where images are unpacked and jobs live: images/, jobs/, state/, run/. */
  readonly directory: string;
  readonly openImage: ImageSource;
  /** Shared with whoever unpacks, so that what both link to is hashed once. */
  readonly seals?: TreeSeals;
  /** Told before an unpacked image that somebody changed is thrown away and unpacked again. */
  readonly onImageChanged?: (because: string) => Promise<void>;
  /** Where long-running services leave word of themselves; the same for every job. */
  readonly runDirectory?: string;
  /** The search path jobs get, after their image's own. */
  readonly path?: string;
  /** How long a job past its deadline may take to end by itself. */
  readonly deadlineGraceMs?: number;
  readonly nodePath?: string;
  readonly keeperPath?: string;
}

const TYPE = "process";
/** A job is watched by its keeper; nothing here can keep it from taking a processor. */
const ENFORCES: LimitEnforcement = {
  memoryBytes: "watched",
  processesMax: "watched",
  cpus: "none",
  logBytesMax: "watched",
  diskBytesMax: "watched",
};
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const REMOVE_GRACE_MS = 5_000;
const KILL_WITHIN_MS = 30_000;
const POLL_MS = 20;

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

  return { type: TYPE, enforces: ENFORCES, start, inspect, output, stop, remove, list };

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
      await layOut(spec, image, job);
    }
    // Also heals a crash between the two: without a claim nothing of the job has ever run.
    if (!isThere(job.claim)) await launchKeeper(job, keeper);
  }

  /** Makes the job's directory with everything in it, in one step. */
  async function layOut(spec: JobSpec, image: UnpackedImage, job: JobDirectory): Promise<void> {
    const order = await orderOf(spec, image, job);
    const draft = jobDirectory(await createDraft(jobs));
    try {
      await mkdir(draft.work, { mode: 0o700 });
      await mkdir(draft.temporary, { mode: 0o700 });
      for (const [name, content] of Object.entries(spec.files)) {
        await writePrivate(join(draft.work, plainPath(name)), content);
      }
      const notes = [
        ...(image.note === undefined ? [] : [image.note]),
        ...unenforcedLimits(TYPE, ENFORCES, spec.limits),
      ];
      if (notes.length > 0) {
        await writePrivate(draft.output, notes.map((note) => `exclave: ${note}\n`).join(""));
      }
      writeRecord(draft.order, order);
      if (await renameUnlessThere(draft.path, job.path)) syncDirectorySync(jobs);
    } finally {
      await rm(draft.path, { recursive: true, force: true });
    }
  }

  async function orderOf(
    spec: JobSpec,
    image: UnpackedImage,
    job: JobDirectory,
  ): Promise<JobOrder> {
    const runDirectory = options.runDirectory ?? join(directory, "run");
    await mkdir(runDirectory, { recursive: true, mode: 0o700 });
    const state =
      spec.stateVolume === undefined
        ? undefined
        : join(directory, "state", plainPath(spec.stateVolume));
    if (state !== undefined) await mkdir(state, { recursive: true, mode: 0o700 });

    return {
      argv: imageCommand(image),
      environment: {
        ...imageEnvironment(image, options.path ?? DEFAULT_PATH),
        HOME: job.work,
        TMPDIR: job.temporary,
        ...spec.environment,
        [JOB_ENVIRONMENT.jobDirectory]: job.work,
        [JOB_ENVIRONMENT.runDirectory]: runDirectory,
        ...(state !== undefined && { [JOB_ENVIRONMENT.stateDirectory]: state }),
      },
      limits: spec.limits,
      deadlineMs: spec.deadlineMs,
      deadlineGraceMs: options.deadlineGraceMs ?? 10_000,
      mark: `${JOB_ENVIRONMENT.jobDirectory}=${job.work}`,
      runDirectory,
    };
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

/** SIGTERM to the first process, SIGKILL to all after the grace, and back once nothing runs and the end is known. */
async function endProgram(job: JobDirectory, graceMs: number): Promise<void> {
  const since = performance.now();
  let hasAsked = false;
  while (true) {
    const waitedMs = performance.now() - since;
    const program = readProgram(job);
    const isRunning = program !== undefined && sessionMembers(processTable, program).length > 0;
    if (!isRunning && inspectJob(job).kind !== "running") {
      // Where its keeper was killed, nobody else ends what left the session.
      for (const pid of straysOf(job)) signalProcess(pid, "SIGKILL");
      return;
    }

    if (program && waitedMs >= graceMs) {
      signalSession(processTable, program, "SIGKILL");
    } else if (program && !hasAsked) {
      askToEnd(processTable, program);
      hasAsked = true;
    }
    if (waitedMs >= graceMs + KILL_WITHIN_MS) {
      throw new Failure("timeout", "the job does not end, although it was killed");
    }
    await sleep(POLL_MS);
  }
}

/** Beside this file and of its kind: .ts in the sources, .js when compiled, .mjs when bundled. */
function defaultKeeperPath(): string {
  const self = fileURLToPath(import.meta.url);
  return join(dirname(self), `keeper${extname(self)}`);
}

async function writePrivate(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** A relative path of plain names, so that it stays where it is put. */
function plainPath(path: string): string {
  const isPlain = path.split("/").every((part) => /^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(part));
  if (!isPlain) throw new Failure("invalid", `${JSON.stringify(path)} is no plain path`);
  return path;
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
