import assert from "node:assert/strict";
import { test } from "node:test";
import { type KubeObject, refOf } from "./kube-object.ts";
import {
  changedFields,
  changeFacts,
  describeChanges,
  findChanges,
  summariseChanges,
  summariseDrift,
} from "./object-changes.ts";

test("compares what people want, and not what the API server writes by itself", () => {
  const live = deployment({ replicas: 1 }, { resourceVersion: "7", generation: 3, uid: "u" });
  const next = deployment({ replicas: 2 }, { resourceVersion: "9", generation: 4, uid: "u" });

  assert.deepEqual(changedFields({ ...live, status: { readyReplicas: 1 } }, next), [
    { path: "spec.replicas", from: 1, to: 2 },
  ]);
  assert.deepEqual(changedFields(live, live), []);
});

test("takes absent, null and empty for the same", () => {
  const live = deployment({ replicas: 1 });
  const next = deployment({ replicas: 1, tolerations: [], affinity: {}, nodeName: null });

  assert.deepEqual(changedFields(live, next), []);
});

test("names an item of a list by its own name", () => {
  const containers = (image: string) => ({ containers: [{ name: "web", image }] });

  const [field] = changedFields(deployment(containers("a:1")), deployment(containers("a:2")));

  assert.equal(field?.path, "spec.containers[web].image");
});

test("never shows a value of a Secret, and shows that it changes", () => {
  const live = secret({ token: "b2xk", gone: "eA==" });
  const next = secret({ token: "bmV3" });

  const changes = findChanges({
    wanted: [{ ref: refOf(live), live, next }],
    unwanted: [],
  });

  assert.deepEqual(describeChanges(changes), [
    "~ Secret team/web",
    '    data.token: "(hidden)" → "(hidden)"',
    '    data.gone: "(hidden)" → (none)',
  ]);
  assert.doesNotMatch(JSON.stringify(changeFacts(changes)), /b2xk|bmV3|eA==/);
});

test("counts what is made, changed and destroyed, and calls a loss a loss", () => {
  const live = deployment({ replicas: 1 });
  const next = deployment({ replicas: 2 });
  const ref = refOf(live);
  const wanted = [
    { ref, live, next },
    { ref: { ...ref, name: "new" }, live: undefined, next },
    { ref: { ...ref, name: "same" }, live, next: live },
  ];

  const changes = findChanges({ wanted, unwanted: [{ ...ref, name: "old" }] });

  assert.deepEqual(summariseChanges(changes), {
    risk: "destroy",
    summary: "1 to add, 1 to change, 1 to destroy",
  });
  assert.equal(summariseChanges(changes.slice(0, 1)).risk, "change");
  assert.equal(summariseChanges([]).risk, "none");
});

test("an autoscaler that moves a value does not make a plan stale, another end does", () => {
  const facts = (from: number, to: number) => {
    const live = deployment({ replicas: from });
    const next = deployment({ replicas: to });
    return changeFacts(findChanges({ wanted: [{ ref: refOf(live), live, next }], unwanted: [] }));
  };

  assert.deepEqual(facts(3, 1), facts(4, 1));
  assert.notDeepEqual(facts(3, 1), facts(3, 2));
  assert.notDeepEqual(facts(3, 1), facts(1, 1));
});

test("says what drifted, the first five by name", () => {
  const ref = refOf(deployment({}));
  const gone = Array.from({ length: 7 }, (_, index) => ({
    ref: { ...ref, name: `web${index}` },
    live: undefined,
    next: undefined,
  }));

  const said = summariseDrift(findChanges({ wanted: gone, unwanted: [] }));

  assert.match(
    said ?? "",
    /^changed outside Exclave: Deployment team\/web0 is gone, .* and 2 more$/,
  );
  assert.equal(summariseDrift([]), undefined);
});

function deployment(spec: Record<string, unknown>, metadata = {}): KubeObject {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web", namespace: "team", ...metadata },
    spec,
  };
}

function secret(data: Record<string, string>): KubeObject {
  return { apiVersion: "v1", kind: "Secret", metadata: { name: "web", namespace: "team" }, data };
}
