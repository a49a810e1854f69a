// The pods behind a component's objects: why they are not ready, what they print, and a command in one of them.

import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "@exclave/core";
import { z } from "zod";
import type { OperationContext, StatusResult } from "../define-plugin.ts";
import { execParameters, logsParameters } from "../parameters.ts";
import { type KubeObject, nameOf, refOf } from "./kube-object.ts";
import type { Kubectl } from "./kubectl.ts";
import { findChanges, summariseDrift } from "./object-changes.ts";
import { explainPod, judgeObjects, WORKLOADS } from "./readiness.ts";

const Selector = z.looseObject({
  selector: z.looseObject({ matchLabels: z.record(z.string(), z.string()) }),
});

/** The pods of every workload among the objects. */
export async function podsOf(
  kubectl: Kubectl,
  objects: readonly (KubeObject | undefined)[],
): Promise<KubeObject[]> {
  const pods: KubeObject[] = [];
  for (const object of objects) {
    if (!object || !WORKLOADS.has(object.kind)) continue;
    if (object.kind === "Pod") {
      pods.push(object);
      continue;
    }
    const spec = Selector.safeParse(object.spec);
    if (!spec.success) continue;
    const labels = Object.entries(spec.data.selector.matchLabels);
    const selector = labels.map(([name, value]) => `${name}=${value}`).join(",");
    const namespace = object.metadata.namespace ?? kubectl.namespace;
    pods.push(...(await kubectl.get(["pods", "--namespace", namespace, "--selector", selector])));
  }
  return pods;
}

const LOOK_EVERY_MS = 1_000;
/** One after the other: a program that ends at once is ready for a moment, if nothing probes it. */
const LOOKS_READY = 3;

export interface Wait {
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal;
  /** Told what is still missing, each time that changes. */
  readonly onProgress?: (because: string) => void;
}

/** Returns once every object is ready; fails where one cannot become so, or does not in time. */
export async function waitUntilReady(
  kubectl: Kubectl,
  objects: readonly KubeObject[],
  wait: Wait,
): Promise<void> {
  let said = "";
  let looksReady = 0;
  const looksWanted = objects.some(({ kind }) => WORKLOADS.has(kind)) ? LOOKS_READY : 1;
  await look(wait, async (isLate) => {
    const live = await kubectl.live(objects);
    const { state, because } = judgeObjects(live.filter((object) => object !== undefined));
    looksReady = state === "ready" ? looksReady + 1 : 0;
    if (state === "ready") return looksReady >= looksWanted;
    if (because !== said) wait.onProgress?.(because);
    said = because;
    if (state !== "failed" && !isLate) return false;
    const late = state === "failed" ? "" : ` after ${wait.timeoutSeconds} s`;
    const why = await explain(kubectl, live);
    throw new Failure("tool", `what was applied is not ready${late}: ${why}`);
  });
}

/** Returns once none of the objects is there any more. */
export async function waitUntilGone(
  kubectl: Kubectl,
  objects: readonly KubeObject[],
  wait: Wait,
): Promise<void> {
  await look(wait, async (isLate) => {
    const left = (await kubectl.live(objects)).filter((object) => object !== undefined);
    if (left.length === 0) return true;
    if (!isLate) return false;
    const names = left.slice(0, 5).map((object) => nameOf(refOf(object)));
    const message = `still there after ${wait.timeoutSeconds} s: ${names.join(", ")}`;
    throw new Failure("timeout", message);
  });
}

async function look(
  { timeoutSeconds, signal }: Wait,
  isDone: (isLate: boolean) => Promise<boolean>,
): Promise<void> {
  const end = Date.now() + timeoutSeconds * 1_000;
  while (!(await isDone(Date.now() > end))) {
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) throw new Failure("cancelled", "stopped while it waited for the cluster");
  }
}

const PODS_EXPLAINED = 3;

/** Why objects are not ready, with the reasons of their pods. */
export async function explain(
  kubectl: Kubectl,
  objects: readonly (KubeObject | undefined)[],
): Promise<string> {
  const there = objects.filter((object) => object !== undefined);
  const { because } = judgeObjects(there);
  const pods = await podsOf(kubectl, there).catch(() => []);
  const reasons = pods.flatMap((pod) => {
    const why = explainPod(pod);
    return why === undefined ? [] : [`${nameOf(refOf(pod))}: ${why}`];
  });
  return [because, ...reasons.slice(0, PODS_EXPLAINED)].join("; ");
}

/** How a component is that should consist of these objects, and whether somebody else changed them. */
export async function statusOf(
  kubectl: Kubectl,
  wanted: readonly KubeObject[],
  manager: string,
): Promise<StatusResult> {
  const live = await kubectl.live(wanted);
  const there = wanted.filter((_, index) => live[index] !== undefined);
  const next = await kubectl.preview(there, manager);
  const nextOf = new Map(there.map((object, index) => [object, next[index]]));
  const changes = findChanges({
    wanted: wanted.map((object, index) => ({
      ref: refOf(live[index] ?? object),
      live: live[index],
      next: nextOf.get(object),
    })),
    unwanted: [],
  });
  const drifted = summariseDrift(changes);
  const drift = { found: drifted !== undefined, summary: drifted ?? "none" };
  if (there.length === 0 && wanted.length > 0) {
    return { health: "missing", because: "none of its objects is in the cluster", drift };
  }
  const judged = judgeObjects(live.filter((object) => object !== undefined));
  if (judged.state !== "ready") {
    return { health: "degraded", because: await explain(kubectl, live), drift };
  }
  return drifted === undefined
    ? { health: "healthy", because: judged.because, drift }
    : { health: "degraded", because: drifted, drift };
}

/** At once. A component with more pods is looked at with its cluster's own tools. */
const PODS_SHOWN = 20;

export async function showLogs(
  context: OperationContext<unknown>,
  kubectl: Kubectl,
  objects: readonly (KubeObject | undefined)[],
): Promise<void> {
  const { tailLines, follow } = logsParameters(context.parameters);
  const pods = await podsOf(kubectl, objects);
  if (pods.length === 0) context.log("no pod of this component is there", "warn");
  if (pods.length > PODS_SHOWN) {
    context.log(`the logs of ${PODS_SHOWN} of ${pods.length} pods`, "warn");
  }
  await Promise.all(
    pods.slice(0, PODS_SHOWN).map(({ metadata: { name, namespace } }) =>
      kubectl.run(
        [
          "logs",
          name,
          "--namespace",
          namespace ?? kubectl.namespace,
          "--all-containers",
          "--ignore-errors",
          `--tail=${tailLines}`,
          ...(follow ? ["--follow"] : []),
        ],
        {
          allowExitCodes: "any",
          echo: true,
          onLine: (line) => context.log(pods.length > 1 ? `${name}: ${line}` : line),
        },
      ),
    ),
  );
}

export async function execInPod(
  context: OperationContext<unknown>,
  kubectl: Kubectl,
  objects: readonly (KubeObject | undefined)[],
): Promise<{ exitCode: number }> {
  const { command, timeoutSeconds } = execParameters(context.parameters);
  const pods = await podsOf(kubectl, objects);
  const pod = pods.find(isRunning);
  if (!pod) throw new Failure("conflict", "no pod of this component runs");
  const { name, namespace = kubectl.namespace } = pod.metadata;
  const { exitCode } = await kubectl.run(
    ["exec", name, "--namespace", namespace, "--", ...command],
    {
      allowExitCodes: "any",
      echo: true,
      onLine: (line) => context.log(line),
      timeoutMs: timeoutSeconds * 1_000,
    },
  );
  return { exitCode };
}

function isRunning(pod: KubeObject): boolean {
  const status = z.looseObject({ phase: z.string() }).safeParse(pod.status);
  return (
    status.success &&
    status.data.phase === "Running" &&
    pod.metadata.deletionTimestamp === undefined
  );
}
