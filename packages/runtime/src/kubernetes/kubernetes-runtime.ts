// Runs each job as a Job of a cluster, in a namespace that holds nothing else: one pod that is tried once, with an account
// of its class, limits the kernel enforces and no Secret. The driver may create, read and delete Jobs there and read
// their pods and logs, and needs nothing more.

import { Failure, type JobClass, JobName } from "@exclave/core";
import { makePrivate } from "@exclave/machine";
import { z } from "zod";
import type { JobRun, JobRuntime, JobSpec, RuntimeCapabilities } from "../job-runtime.ts";
import { unenforcedLimits } from "../unenforced-limits.ts";
import { removeJob, stopJob } from "./end-job.ts";
import { followPod } from "./follow-pod.ts";
import { look } from "./inspect-job.ts";
import { type JobPlace, jobOrder, LABELS } from "./job-order.ts";
import { KubeJob } from "./job-run.ts";
import type { KubeClient } from "./kube-client.ts";
import {
  dropRecord,
  findJob,
  jobsPath,
  type KubePlace,
  readRecord,
  recordedJobs,
  writeRecord,
} from "./kube-place.ts";

export interface KubernetesRuntimeOptions
  extends Pick<JobPlace, "namespace" | "imageRegistry" | "document">,
    Partial<Pick<JobPlace, "serviceAccounts" | "apiClasses" | "stateClaim" | "scheduleSeconds">> {
  readonly client: KubeClient;
  /** Where the agent writes down what the cluster forgets, and a job's files until it has fetched them. */
  readonly directory: string;
  readonly graceSeconds?: number | undefined;
  /** What a job may print beyond its log; the runner stays within what is usual. */
  readonly allowanceBytes?: number;
}

const TYPE = "kubernetes";
const CAPABILITIES: RuntimeCapabilities = {
  limits: {
    memoryBytes: "enforced",
    // A kubelet's own setting, for all pods of its node.
    processesMax: "none",
    cpus: "enforced",
    logBytesMax: "watched",
    diskBytesMax: "watched",
  },
  // Policies keep the network apart where the cluster's network enforces them; not every one does.
  isolates: { network: false, files: true },
  identities: true,
  output: "rotated",
  streams: "apart",
  stoppedExit: "forgotten",
  leavesPrograms: false,
};
const CHANGING_GRACE_SECONDS = 60;
const GRACE_SECONDS = 15;
const SCHEDULE_SECONDS = 600;
const OUTPUT_ALLOWANCE_BYTES = 64 * 1024 * 1024;

/** Starts under way in this process: two runtimes over one place start a job once. */
const starting = new Map<string, Promise<void>>();

export function createKubernetesRuntime(options: KubernetesRuntimeOptions): JobRuntime {
  const { graceSeconds } = options;
  const place: KubePlace = {
    ...options,
    serviceAccounts: options.serviceAccounts ?? {},
    apiClasses: options.apiClasses ?? [],
    allowanceBytes: options.allowanceBytes ?? OUTPUT_ALLOWANCE_BYTES,
    scheduleSeconds: options.scheduleSeconds ?? SCHEDULE_SECONDS,
    graceSeconds: (jobClass) => graceSeconds ?? graceOf(jobClass),
  };
  const keyOf = (name: JobName) => `${options.directory} ${options.namespace} ${name}`;
  let ready: Promise<void> | undefined;

  return { type: TYPE, capabilities: CAPABILITIES, start, inspect, output, stop, remove, list };

  function prepared(): Promise<void> {
    ready ??= makePrivate(options.directory, { isDeep: false });
    return ready;
  }

  async function start(spec: JobSpec): Promise<void> {
    const key = keyOf(spec.name);
    const earlier = starting.get(key);
    if (earlier) return earlier;
    const started = prepared()
      .then(() => launch(place, spec))
      .finally(() => starting.delete(key));
    starting.set(key, started);
    return started;
  }

  async function inspect(name: JobName): Promise<JobRun> {
    await prepared();
    return (await look(place, name)).run;
  }

  async function* output(
    name: JobName,
    from: number,
    signal: AbortSignal,
  ): AsyncIterable<Uint8Array> {
    await prepared();
    const sent = await readRecord(place, name, "sent");
    if (!sent && !(await findJob(place, name))) {
      throw new Failure("not_found", `there is no job ${name} here`);
    }
    yield* followPod(place, name, { from, sent, signal });
  }

  async function stop(name: JobName, _graceMs: number): Promise<void> {
    await prepared();
    await starting.get(keyOf(name))?.catch(() => undefined);
    await stopJob(place, name);
  }

  async function remove(name: JobName): Promise<void> {
    await prepared();
    await starting.get(keyOf(name))?.catch(() => undefined);
    await removeJob(place, name);
  }

  async function list(): Promise<JobName[]> {
    await prepared();
    const there = await place.client.find(jobsPath(place), z.object({ items: z.array(KubeJob) }));
    const named = (there?.items ?? []).flatMap(
      ({ metadata }) => JobName.safeParse(metadata.annotations[LABELS.job]).data ?? [],
    );
    return [...new Set([...named, ...(await recordedJobs(place))])].toSorted();
  }
}

/** Written down before it is sent and after: one that got there and is gone is not sent a second time. */
async function launch(place: KubePlace, spec: JobSpec): Promise<void> {
  const { name } = spec;
  const before = await readRecord(place, name, "sent");
  if (before?.phase === "sent" || (await findJob(place, name))) return;
  if (await readRecord(place, name, "end")) return;
  const notes = unenforcedLimits(TYPE, CAPABILITIES.limits, spec.limits);
  const sent = {
    notes: notes.map((note) => `exclave: ${note}\n`).join(""),
    logBytesMax: spec.limits.logBytesMax ?? null,
  };
  await writeRecord(place, name, "files", spec.files);
  await writeRecord(place, name, "sent", { ...sent, phase: "sending" });
  try {
    await place.client.send("POST", jobsPath(place), {
      json: jobOrder(spec, place),
      schema: KubeJob,
      // The name is taken: an earlier life's request got there.
      expected: [409],
    });
  } catch (reason) {
    await forgetIfRefused(place, name, reason);
    throw reason;
  }
  await writeRecord(place, name, "sent", { ...sent, phase: "sent" });
}

/** Refused by a policy or a quota, it never was; where nobody answered, it may be there. */
async function forgetIfRefused(place: KubePlace, name: JobName, reason: unknown): Promise<void> {
  const code = reason instanceof Failure ? reason.code : "bug";
  if (code === "unavailable" || code === "bug") return;
  await dropRecord(place, name, "files");
  await dropRecord(place, name, "sent");
}

function graceOf(jobClass: JobClass): number {
  return jobClass === "apply" || jobClass === "sandbox" ? CHANGING_GRACE_SECONDS : GRACE_SECONDS;
}
