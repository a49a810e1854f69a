// Whether an object of a cluster does what it is for, from what the API server says of it. Pure.

import { z } from "zod";
import { type KubeObject, nameOf, refOf } from "./kube-object.ts";

export interface Readiness {
  /** `failed` does not mend by waiting. */
  readonly state: "ready" | "progressing" | "failed";
  readonly because: string;
}

const Count = z.int().nonnegative().default(0);
const Condition = z.looseObject({
  type: z.string(),
  status: z.string(),
  reason: z.string().default(""),
  message: z.string().default(""),
});
type Condition = z.infer<typeof Condition>;

const Status = z.looseObject({
  observedGeneration: z.int().optional(),
  replicas: Count,
  readyReplicas: Count,
  updatedReplicas: Count,
  availableReplicas: Count,
  desiredNumberScheduled: Count,
  numberReady: Count,
  updatedNumberScheduled: Count,
  succeeded: Count,
  phase: z.string().default(""),
  conditions: z.array(Condition).nullish(),
});
type Status = z.infer<typeof Status>;

const Spec = z.looseObject({
  replicas: z.int().nonnegative().default(1),
  completions: z.int().nonnegative().default(1),
  suspend: z.boolean().default(false),
  updateStrategy: z.looseObject({ type: z.string().optional() }).nullish(),
});

/** Kinds that run pods. */
export const WORKLOADS: ReadonlySet<string> = new Set([
  "DaemonSet",
  "Deployment",
  "Job",
  "Pod",
  "StatefulSet",
]);

export function judgeObject(object: KubeObject): Readiness {
  const status = Status.safeParse(object.status ?? {});
  const spec = Spec.safeParse(object.spec ?? {});
  // Kinds of others may give these fields other meanings.
  if (!status.success || !spec.success) return ready("is there");
  if (object.metadata.deletionTimestamp !== undefined) return progressing("is being deleted");

  const generation = object.metadata.generation;
  const { observedGeneration } = status.data;
  const isBehind =
    typeof generation === "number" &&
    observedGeneration !== undefined &&
    observedGeneration < generation;
  if (isBehind) return progressing("is not looked at yet");
  return judgeKind(object.kind, spec.data, status.data);
}

function judgeKind(kind: string, spec: z.infer<typeof Spec>, status: Status): Readiness {
  switch (kind) {
    case "Deployment":
      return judgeDeployment(spec.replicas, status);
    case "StatefulSet": {
      const isUpdated =
        spec.updateStrategy?.type === "OnDelete" || status.updatedReplicas >= spec.replicas;
      if (!isUpdated) return countOf("updated", status.updatedReplicas, spec.replicas);
      return countOf("ready", status.readyReplicas, spec.replicas);
    }
    case "DaemonSet": {
      if (status.observedGeneration === undefined) return progressing("is not looked at yet");
      const wanted = status.desiredNumberScheduled;
      if (status.updatedNumberScheduled < wanted) {
        return countOf("updated", status.updatedNumberScheduled, wanted);
      }
      return countOf("ready", status.numberReady, wanted);
    }
    case "Job":
      return judgeJob(spec, status);
    case "Pod":
      return judgePod(status);
    case "PersistentVolumeClaim":
      // One that waits for its first pod is bound by that pod, which is judged by itself.
      return status.phase === "Lost" ? failed("its volume is lost") : ready("is there");
    case "CustomResourceDefinition":
      return isTrue(status, "Established") ? ready("is served") : progressing("is not served yet");
    default:
      return judgeConditions(status);
  }
}

function judgeDeployment(replicas: number, status: Status): Readiness {
  const progress = conditionOf(status, "Progressing");
  if (progress?.reason === "ProgressDeadlineExceeded") {
    return failed(`makes no progress: ${status.readyReplicas} of ${replicas} ready`);
  }
  if (status.updatedReplicas < replicas) {
    return countOf("updated", status.updatedReplicas, replicas);
  }
  if (status.replicas > status.updatedReplicas) return progressing("ends its old pods");
  return countOf("ready", status.availableReplicas, replicas);
}

function judgeJob(spec: z.infer<typeof Spec>, status: Status): Readiness {
  const broken = conditionOf(status, "Failed");
  if (broken?.status === "True") return failed(`failed: ${broken.message || broken.reason}`);
  if (isTrue(status, "Complete")) return ready("is done");
  if (spec.suspend) return ready("is suspended");
  return countOf("done", status.succeeded, spec.completions);
}

function judgePod(status: Status): Readiness {
  if (status.phase === "Succeeded") return ready("is done");
  if (status.phase === "Failed") return failed("failed");
  return isTrue(status, "Ready") ? ready("is ready") : progressing("is not ready");
}

function judgeConditions(status: Status): Readiness {
  const condition = conditionOf(status, "Ready");
  if (!condition || condition.status === "True") return ready("is there");
  return progressing(`is not ready${condition.message ? `: ${condition.message}` : ""}`);
}

function conditionOf({ conditions }: Status, type: string): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

function isTrue(status: Status, type: string): boolean {
  return conditionOf(status, type)?.status === "True";
}

function countOf(what: string, count: number, wanted: number): Readiness {
  const because = `${count} of ${wanted} ${what}`;
  return count >= wanted ? ready(because) : progressing(because);
}

function ready(because: string): Readiness {
  return { state: "ready", because };
}

function progressing(because: string): Readiness {
  return { state: "progressing", because };
}

function failed(because: string): Readiness {
  return { state: "failed", because };
}

/** Of several objects: the worst, with the names of those that are not ready. */
export function judgeObjects(objects: readonly KubeObject[]): Readiness {
  const judged = objects.map((object) => ({ name: nameOf(refOf(object)), ...judgeObject(object) }));
  const late = judged.filter(({ state }) => state !== "ready");
  if (late.length === 0) return ready(`${plural(objects.length, "object")} ready`);
  const because = late
    .slice(0, 5)
    .map(({ name, because }) => `${name}: ${because}`)
    .join("; ");
  const rest = late.length > 5 ? ` and ${late.length - 5} more` : "";
  const state = late.some((one) => one.state === "failed") ? "failed" : "progressing";
  return { state, because: `${because}${rest}` };
}

const ContainerStatus = z.looseObject({
  name: z.string(),
  state: z
    .looseObject({
      waiting: z
        .looseObject({ reason: z.string().default("waiting"), message: z.string().default("") })
        .nullish(),
      terminated: z
        .looseObject({ exitCode: z.int().default(0), reason: z.string().default("") })
        .nullish(),
    })
    .nullish(),
  lastState: z
    .looseObject({
      terminated: z
        .looseObject({ exitCode: z.int().default(0), reason: z.string().default("") })
        .nullish(),
    })
    .nullish(),
  ready: z.boolean().default(false),
});
const PodStatus = z.looseObject({
  phase: z.string().default(""),
  conditions: z.array(Condition).nullish(),
  initContainerStatuses: z.array(ContainerStatus).nullish(),
  containerStatuses: z.array(ContainerStatus).nullish(),
});

/** Why a pod is not ready, in the words of what holds it up; undefined when it is. */
export function explainPod(pod: KubeObject): string | undefined {
  const parsed = PodStatus.safeParse(pod.status ?? {});
  if (!parsed.success || parsed.data.phase === "Succeeded") return undefined;
  const { conditions, initContainerStatuses, containerStatuses } = parsed.data;
  const said = [...(initContainerStatuses ?? []), ...(containerStatuses ?? [])].flatMap((one) => {
    const waiting = one.state?.waiting;
    const ended = one.state?.terminated ?? one.lastState?.terminated;
    const exit = ended && ended.exitCode !== 0 ? `exited with ${ended.exitCode}` : undefined;
    const wait = waiting && !["PodInitializing", "ContainerCreating"].includes(waiting.reason);
    const parts = [wait ? waiting.reason : undefined, exit].filter((part) => part !== undefined);
    return parts.length > 0 ? [`${one.name} ${parts.join(", ")}`] : [];
  });
  if (said.length > 0) return said.join("; ");
  const unscheduled = conditions?.find(
    ({ type, status }) => type === "PodScheduled" && status === "False",
  );
  if (unscheduled) return `not scheduled: ${unscheduled.message || unscheduled.reason}`;
  const unready = containerStatuses?.find((one) => !one.ready);
  return unready ? `${unready.name} runs and is not ready` : undefined;
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
