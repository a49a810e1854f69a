// What every part of the driver works with: the cluster, and what the agent writes down of a job beside it. A
// cluster forgets what it deletes, so that a job was sent, how it ended and what it said while it was stopped
// lies in files of the agent's own. Each is written once or by one writer.

import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { JobName } from "@exclave/core";
import { readIfThere, writeDurably } from "@exclave/machine";
import { z } from "zod";
import type { JobExit } from "../job-runtime.ts";
import { type JobPlace, kubeName, LABELS } from "./job-order.ts";
import { KubeJob, KubePod } from "./job-run.ts";
import { type KubeClient, kubePath } from "./kube-client.ts";

export interface KubePlace extends JobPlace {
  readonly client: KubeClient;
  readonly directory: string;
  /** What a job may print beyond its log: outputs, artifacts, and the envelope of each line. */
  readonly allowanceBytes: number;
}

const Exit = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("code"), code: z.int() }),
  z.object({ kind: z.literal("signal"), signal: z.string() }),
  z.object({ kind: z.literal("out-of-memory") }),
  z.object({ kind: z.literal("deadline") }),
  z.object({ kind: z.literal("over-limit"), because: z.string() }),
  z.object({ kind: z.literal("stopped") }),
  z.object({ kind: z.literal("lost"), because: z.string() }),
]) satisfies z.ZodType<JobExit>;

/** That it is on its way to the cluster, or is known to have got there. */
const Sent = z.object({
  phase: z.enum(["sending", "sent"]),
  /** What its output begins with. */
  notes: z.string(),
  logBytesMax: z.number().nullable(),
});
export type Sent = z.infer<typeof Sent>;

/** A line of the log that is known: its time and its first byte. */
const LogMark = z.object({ time: z.string(), offset: z.int() });
const LogMarks = z.object({
  /** The first line that was ever there, or that was left after a gap. */
  first: LogMark,
  last: LogMark,
  /** Behind it nothing more comes: the pod is gone, and what it said after that byte with it. */
  goneAt: z.int().optional(),
});
export type LogMark = z.infer<typeof LogMark>;
export type LogMarks = z.infer<typeof LogMarks>;

const Files = z.record(z.string(), z.string());

const RECORDS = { sent: Sent, end: Exit, marks: LogMarks, files: Files } as const;
type Records = { readonly [Kind in keyof typeof RECORDS]: z.infer<(typeof RECORDS)[Kind]> };

export async function readRecord<Kind extends keyof Records>(
  { directory }: Pick<KubePlace, "directory">,
  name: JobName,
  kind: Kind,
): Promise<Records[Kind] | undefined> {
  const text = await readIfThere(recordPath(directory, name, kind));
  return text === undefined ? undefined : (RECORDS[kind].parse(JSON.parse(text)) as Records[Kind]);
}

export async function writeRecord<Kind extends keyof Records>(
  { directory }: Pick<KubePlace, "directory">,
  name: JobName,
  kind: Kind,
  value: Records[Kind],
): Promise<void> {
  await writeDurably(recordPath(directory, name, kind), JSON.stringify(value));
}

export async function dropRecord(
  { directory }: Pick<KubePlace, "directory">,
  name: JobName,
  kind: keyof Records,
): Promise<void> {
  await rm(recordPath(directory, name, kind), { force: true });
}

/** `sent` goes last: as long as it is there, the job is known. */
export async function dropRecords(place: KubePlace, name: JobName): Promise<void> {
  await rm(spoolPath(place, name), { force: true });
  for (const kind of ["files", "marks", "end", "sent"] as const)
    await dropRecord(place, name, kind);
}

export async function recordedJobs({ directory }: KubePlace): Promise<JobName[]> {
  const names = (await readdir(directory)).map((file) => /^(.*)\.sent\.json$/.exec(file)?.[1]);
  return names.flatMap((name) => JobName.safeParse(name).data ?? []);
}

/** What a job said that was deleted since. */
export function spoolPath({ directory }: Pick<KubePlace, "directory">, name: JobName): string {
  return join(directory, `${JobName.parse(name)}.out`);
}

function recordPath(directory: string, name: JobName, kind: keyof Records): string {
  return join(directory, `${JobName.parse(name)}.${kind}.json`);
}

export function jobsPath({ namespace }: KubePlace, name?: JobName): string {
  const all = `/apis/batch/v1/namespaces/${namespace}/jobs`;
  return name === undefined ? all : `${all}/${kubeName(name)}`;
}

export function podsPath({ namespace }: KubePlace, name = ""): string {
  return `/api/v1/namespaces/${namespace}/pods${name === "" ? "" : `/${name}`}`;
}

export function findJob(place: KubePlace, name: JobName): Promise<KubeJob | undefined> {
  return place.client.find(jobsPath(place, name), KubeJob);
}

/** There is one at most: a Job of ours is tried once. */
export async function findPod(place: KubePlace, name: JobName): Promise<KubePod | undefined> {
  const path = kubePath(podsPath(place), { labelSelector: `${LABELS.job}=${kubeName(name)}` });
  const list = await place.client.find(path, z.object({ items: z.array(KubePod) }));
  return list?.items[0];
}
