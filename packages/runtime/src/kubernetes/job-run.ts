// What a cluster says of a Job and its pod, as what is known of a job. Plain decisions: the driver asks.

import { z } from "zod";
import type { JobExit, JobRun } from "../job-runtime.ts";
import { signalOf } from "../podman/container-run.ts";
import { CONTAINER, LABELS } from "./job-order.ts";

const Condition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().optional(),
  message: z.string().optional(),
});

const Metadata = z.object({
  name: z.string(),
  uid: z.string(),
  labels: z.record(z.string(), z.string()).default({}),
  annotations: z.record(z.string(), z.string()).default({}),
  deletionTimestamp: z.string().optional(),
});

/** The parts of a Job that say how it is. */
export const KubeJob = z.object({
  metadata: Metadata,
  status: z.object({ conditions: z.array(Condition).default([]) }).prefault({}),
});
export type KubeJob = z.infer<typeof KubeJob>;

const Terminated = z.object({
  exitCode: z.number(),
  reason: z.string().default(""),
  message: z.string().default(""),
});
const ContainerState = z.object({
  waiting: z.object({ reason: z.string().default(""), message: z.string().default("") }).optional(),
  running: z.object({}).optional(),
  terminated: Terminated.optional(),
});

export const KubePod = z.object({
  metadata: Metadata.extend({
    ownerReferences: z.array(z.object({ kind: z.string(), name: z.string() })).default([]),
  }),
  status: z
    .object({
      phase: z.string().default("Pending"),
      reason: z.string().default(""),
      message: z.string().default(""),
      conditions: z.array(Condition).default([]),
      containerStatuses: z
        .array(z.object({ name: z.string(), state: ContainerState.default({}) }))
        .default([]),
    })
    .prefault({}),
});
export type KubePod = z.infer<typeof KubePod>;

export interface SeenJob {
  readonly job: KubeJob | undefined;
  readonly pod: KubePod | undefined;
  /** The end that was written down: seen before, or about to be brought about. */
  readonly end: JobExit | undefined;
  /** Whether the cluster is known to have taken it. */
  readonly isSent: boolean;
}

export function jobRunOf({ job, pod, end, isSent }: SeenJob): JobRun {
  // It must not be called over while it may act.
  if (pod && !isTerminal(pod)) return liveRun(pod);
  if (!pod && job && !finished(job)) {
    return { kind: "waiting", because: "the cluster has not made its pod yet" };
  }
  if (end) return { kind: "exited", exit: end };
  if (pod) return { kind: "exited", exit: exitOfPod(pod) };
  if (job) return { kind: "exited", exit: exitOfJob(job) };
  return isSent
    ? { kind: "exited", exit: { kind: "lost", because: "somebody deleted its Job" } }
    : { kind: "absent" };
}

export function hasStarted(pod: KubePod): boolean {
  const state = stateOf(pod);
  return state.running !== undefined || state.terminated !== undefined;
}

/** Why its program never ran, in the words of the node; its log says nothing of it. */
export function startErrorOf(pod: KubePod): string | undefined {
  const { terminated } = stateOf(pod);
  const isStartError = terminated && START_ERRORS.includes(terminated.reason);
  return isStartError ? `${terminated.reason}: ${terminated.message}`.slice(0, 1_000) : undefined;
}

const START_ERRORS = ["StartError", "ContainerCannotRun", "CreateContainerError"];

function liveRun(pod: KubePod): JobRun {
  const { waiting } = stateOf(pod);
  if (hasStarted(pod)) return { kind: "running" };
  // One that nobody hears of may be at work.
  if (pod.status.phase === "Unknown") return { kind: "running" };
  if (waiting?.reason) {
    return { kind: "waiting", because: inWords(waiting.reason, waiting.message) };
  }
  const unscheduled = pod.status.conditions.find(
    ({ type, status }) => type === "PodScheduled" && status === "False",
  );
  const { reason = "Pending", message = "" } = unscheduled ?? {};
  return { kind: "waiting", because: inWords(reason, message) };
}

function exitOfPod(pod: KubePod): JobExit {
  const { reason, message } = pod.status;
  if (reason === "DeadlineExceeded") return { kind: "deadline" };
  if (reason === "Evicted") {
    const because = `its node evicted it: ${message}`;
    const isDisk = /emptydir volume|ephemeral.*storage/i.test(message) && /exceeds/i.test(message);
    return isDisk ? { kind: "over-limit", because } : { kind: "lost", because };
  }
  const { terminated } = stateOf(pod);
  if (!terminated) return { kind: "lost", because: inWords(reason || "its node lost it", message) };
  return exitOfContainer(terminated);
}

/** What a kubelet says that comes back and finds nothing of a container, or a shim that was killed. */
const UNSEEN = ["ContainerStatusUnknown", "Unknown"];

function exitOfContainer({ exitCode, reason, message }: z.infer<typeof Terminated>): JobExit {
  if (reason === "OOMKilled" && exitCode !== 0) return { kind: "out-of-memory" };
  if (UNSEEN.includes(reason)) {
    return { kind: "lost", because: inWords("its node did not see it end", message) };
  }
  const signal = signalOf(exitCode);
  return signal === undefined ? { kind: "code", code: exitCode } : { kind: "signal", signal };
}

/** Without its pod: deleted by a drain or by hand, or never there. */
function exitOfJob(job: KubeJob): JobExit {
  const end = finished(job);
  if (end?.type === "Complete") return { kind: "code", code: 0 };
  if (end?.reason === "DeadlineExceeded") return { kind: "deadline" };
  const said = inWords(end?.reason ?? "no reason", end?.message ?? "");
  return { kind: "lost", because: `its pod is gone: ${said}` };
}

function finished({ status }: KubeJob) {
  return status.conditions.find(
    ({ type, status: is }) => (type === "Complete" || type === "Failed") && is === "True",
  );
}

function isTerminal({ status: { phase } }: KubePod): boolean {
  return phase === "Succeeded" || phase === "Failed";
}

function stateOf(pod: KubePod): z.infer<typeof ContainerState> {
  return pod.status.containerStatuses.find(({ name }) => name === CONTAINER)?.state ?? {};
}

function inWords(reason: string, message: string): string {
  return (message === "" ? reason : `${reason}: ${message}`).slice(0, 1_000);
}

/** Whose pod it is: by its label and by its owner, which agree in every pod a Job made. */
export function jobOfPod({ metadata }: KubePod): string | undefined {
  const owner = metadata.ownerReferences.find(({ kind }) => kind === "Job")?.name;
  return owner !== undefined && metadata.labels[LABELS.job] === owner ? owner : undefined;
}
