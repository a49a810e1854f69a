// A job's directory: what it runs, with what, and where it finds its files.

import { mkdir, open, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Failure, JOB_ENVIRONMENT } from "@exclave/core";
import { syncDirectorySync } from "@exclave/machine/durable-files-sync";
import type { JobSpec } from "../job-runtime.ts";
import { createDraft, renameUnlessThere } from "./draft-directory.ts";
import type { UnpackedImage } from "./image-cache.ts";
import { imageCommand, imageEnvironment } from "./image-command.ts";
import { type JobDirectory, type JobOrder, jobDirectory, writeRecord } from "./job-directory.ts";

/** Where jobs live, and what all of them get. */
export interface JobPlaces {
  /** Where images are unpacked and jobs live: images/, jobs/, state/, run/. */
  readonly directory: string;
  /** Where long-running services leave word of themselves; the same for every job. */
  readonly runDirectory?: string;
  /** The search path jobs get, after their image's own. */
  readonly path?: string;
  /** How long a job past its deadline may take to end by itself. */
  readonly deadlineGraceMs?: number;
}

export interface LaidJob {
  readonly spec: JobSpec;
  readonly image: UnpackedImage;
  readonly job: JobDirectory;
  /** What its output begins with, after what the image has to say. */
  readonly notes: readonly string[];
}

const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Makes the job's directory with everything in it, in one step. */
export async function layOutJob(places: JobPlaces & { readonly jobs: string }, laid: LaidJob) {
  const { spec, image, job } = laid;
  const notes = [...(image.note === undefined ? [] : [image.note]), ...laid.notes];
  const order = await orderOf(places, laid);
  const draft = jobDirectory(await createDraft(places.jobs));
  try {
    await mkdir(draft.work, { mode: 0o700 });
    await mkdir(draft.temporary, { mode: 0o700 });
    for (const [name, content] of Object.entries(spec.files)) {
      await writePrivate(join(draft.work, plainPath(name)), content);
    }
    if (notes.length > 0) {
      await writePrivate(draft.output, notes.map((note) => `exclave: ${note}\n`).join(""));
    }
    writeRecord(draft.order, order);
    if (await renameUnlessThere(draft.path, job.path)) syncDirectorySync(places.jobs);
  } finally {
    await rm(draft.path, { recursive: true, force: true });
  }
}

async function orderOf(places: JobPlaces, { spec, image, job }: LaidJob): Promise<JobOrder> {
  const { directory } = places;
  const runDirectory = places.runDirectory ?? join(directory, "run");
  await mkdir(runDirectory, { recursive: true, mode: 0o700 });
  const state =
    spec.stateVolume === undefined
      ? undefined
      : join(directory, "state", plainPath(spec.stateVolume));
  if (state !== undefined) await mkdir(state, { recursive: true, mode: 0o700 });

  return {
    argv: imageCommand(image),
    environment: {
      ...imageEnvironment(image, places.path ?? DEFAULT_PATH),
      HOME: job.work,
      TMPDIR: job.temporary,
      ...spec.environment,
      [JOB_ENVIRONMENT.jobDirectory]: job.work,
      [JOB_ENVIRONMENT.runDirectory]: runDirectory,
      ...(state !== undefined && { [JOB_ENVIRONMENT.stateDirectory]: state }),
    },
    limits: spec.limits,
    deadlineMs: spec.deadlineMs,
    deadlineGraceMs: places.deadlineGraceMs ?? 10_000,
    mark: `${JOB_ENVIRONMENT.jobDirectory}=${job.work}`,
    runDirectory,
  };
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
