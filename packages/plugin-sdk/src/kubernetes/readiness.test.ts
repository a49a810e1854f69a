import assert from "node:assert/strict";
import { test } from "node:test";
import type { KubeObject } from "./kube-object.ts";
import { explainPod, judgeObject, judgeObjects } from "./readiness.ts";

// What each kind says of itself, and what is made of it.
// biome-ignore format: a table reads as a table.
const TABLE: readonly (readonly [kind: string, spec: object, status: object, state: string, because: RegExp])[] = [
  ["Deployment", { replicas: 2 }, { replicas: 2, updatedReplicas: 2, availableReplicas: 2 }, "ready", /2 of 2 ready/],
  ["Deployment", { replicas: 2 }, { replicas: 2, updatedReplicas: 2, availableReplicas: 1 }, "progressing", /1 of 2 ready/],
  ["Deployment", { replicas: 2 }, { replicas: 2, updatedReplicas: 1, availableReplicas: 2 }, "progressing", /1 of 2 updated/],
  ["Deployment", { replicas: 1 }, { replicas: 2, updatedReplicas: 1, availableReplicas: 2 }, "progressing", /old pods/],
  ["Deployment", { replicas: 0 }, {}, "ready", /0 of 0/],
  ["Deployment", {}, {}, "progressing", /0 of 1 updated/],
  ["Deployment", {}, { conditions: [{ type: "Progressing", status: "False", reason: "ProgressDeadlineExceeded" }] }, "failed", /no progress/],
  ["StatefulSet", { replicas: 3 }, { updatedReplicas: 3, readyReplicas: 3 }, "ready", /3 of 3/],
  ["StatefulSet", { replicas: 3 }, { updatedReplicas: 3, readyReplicas: 2 }, "progressing", /2 of 3 ready/],
  ["StatefulSet", { replicas: 1, updateStrategy: { type: "OnDelete" } }, { updatedReplicas: 0, readyReplicas: 1 }, "ready", /1 of 1/],
  ["DaemonSet", {}, {}, "progressing", /not looked at/],
  ["DaemonSet", {}, { observedGeneration: 1, desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberReady: 2 }, "ready", /2 of 2/],
  ["DaemonSet", {}, { observedGeneration: 1, desiredNumberScheduled: 2, updatedNumberScheduled: 1, numberReady: 2 }, "progressing", /1 of 2 updated/],
  ["Job", {}, { conditions: [{ type: "Complete", status: "True" }] }, "ready", /done/],
  ["Job", {}, { conditions: [{ type: "Failed", status: "True", message: "out of tries" }] }, "failed", /out of tries/],
  ["Job", { completions: 3 }, { succeeded: 1 }, "progressing", /1 of 3 done/],
  ["Job", { suspend: true }, {}, "ready", /suspended/],
  ["Pod", {}, { phase: "Running", conditions: [{ type: "Ready", status: "True" }] }, "ready", /ready/],
  ["Pod", {}, { phase: "Running", conditions: [{ type: "Ready", status: "False" }] }, "progressing", /not ready/],
  ["Pod", {}, { phase: "Failed" }, "failed", /failed/],
  ["PersistentVolumeClaim", {}, { phase: "Pending" }, "ready", /there/],
  ["PersistentVolumeClaim", {}, { phase: "Lost" }, "failed", /lost/],
  ["CustomResourceDefinition", {}, {}, "progressing", /not served/],
  ["CustomResourceDefinition", {}, { conditions: [{ type: "Established", status: "True" }] }, "ready", /served/],
  ["ConfigMap", {}, {}, "ready", /there/],
  ["Certificate", {}, { conditions: [{ type: "Ready", status: "False", message: "no issuer" }] }, "progressing", /no issuer/],
  ["Lamp", { replicas: "many" }, { replicas: "some" }, "ready", /there/],
];

for (const [kind, spec, status, state, because] of TABLE) {
  test(`a ${kind} with ${JSON.stringify(status)} is ${state}`, () => {
    const judged = judgeObject(object(kind, spec, status));

    assert.equal(judged.state, state);
    assert.match(judged.because, because);
  });
}

test("what its controller has not looked at yet is not ready, however it looks", () => {
  const status = { observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1 };
  const seen = object("Deployment", {}, status);

  const changed = { ...seen, metadata: { ...seen.metadata, generation: 2 } };

  assert.equal(judgeObject(seen).state, "ready");
  assert.equal(judgeObject(changed).state, "progressing");
});

test("the worst of several counts, with its name", () => {
  const late = object("Deployment", {}, {});
  const broken = object("Job", {}, { conditions: [{ type: "Failed", status: "True" }] });

  assert.equal(judgeObjects([object("ConfigMap", {}, {})]).state, "ready");
  assert.equal(judgeObjects([late]).state, "progressing");
  assert.equal(judgeObjects([late, broken]).state, "failed");
  assert.match(judgeObjects([late, broken]).because, /^Deployment team\/web: .*; Job team\/web: /);
});

test("explains a pod by what holds it up", () => {
  const pod = (status: object) => explainPod(object("Pod", {}, status));
  const waiting = (reason: string) => ({ name: "web", state: { waiting: { reason } } });

  assert.equal(pod({ containerStatuses: [waiting("ImagePullBackOff")] }), "web ImagePullBackOff");
  assert.equal(
    pod({
      containerStatuses: [
        { ...waiting("CrashLoopBackOff"), lastState: { terminated: { exitCode: 3 } } },
      ],
    }),
    "web CrashLoopBackOff, exited with 3",
  );
  assert.match(
    pod({ conditions: [{ type: "PodScheduled", status: "False", message: "no node" }] }) ?? "",
    /not scheduled: no node/,
  );
  assert.match(pod({ containerStatuses: [{ name: "web", ready: false }] }) ?? "", /not ready/);
  assert.equal(
    pod({ phase: "Running", containerStatuses: [{ name: "web", ready: true }] }),
    undefined,
  );
  assert.equal(pod({ phase: "Succeeded" }), undefined);
});

function object(kind: string, spec: object, status: object): KubeObject {
  return { apiVersion: "v1", kind, metadata: { name: "web", namespace: "team" }, spec, status };
}
