import assert from "node:assert/strict";
import { test } from "node:test";
import { jobName } from "@exclave/core";
import { jobOrder, kubeName } from "./job-order.ts";
import { orderPlace, someSpec } from "./testing/some-spec.ts";

test("a job is tried once, by digest from the install's registry, and gives up nothing it has no need of", () => {
  const { spec } = jobOrder(someSpec(), orderPlace);
  const pod = spec.template.spec;
  const [container] = pod.containers;

  assert.equal(spec.backoffLimit, 0);
  assert.equal(pod.restartPolicy, "Never");
  assert.equal(container?.image, `registry.test:5000/apps/crm@sha256:${"a".repeat(64)}`);
  assert.deepEqual(pod.securityContext.seccompProfile, { type: "RuntimeDefault" });
  assert.equal(pod.securityContext.runAsNonRoot, true);
  assert.deepEqual(container?.securityContext, {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
});

test("nothing of a job's files is in what the cluster keeps", () => {
  const order = JSON.stringify(jobOrder(someSpec({ files: { "job.json": "s3cret" } }), orderPlace));

  assert.doesNotMatch(order, /s3cret|secretKeyRef|configMap|"secret"/);
});

test("each class is its own account, and has a token for the API only where it is said", () => {
  const podOf = (jobClass: "apply" | "sync") =>
    jobOrder(someSpec({ jobClass }), orderPlace).spec.template.spec;

  assert.equal(podOf("apply").serviceAccountName, "job-apply");
  assert.equal(podOf("apply").automountServiceAccountToken, true);
  assert.equal(podOf("sync").serviceAccountName, "job-sync");
  assert.equal(podOf("sync").automountServiceAccountToken, false);
});

test("the deadline is the kubelet's to keep; the Job's own ends what never got to a node", () => {
  const { spec } = jobOrder(someSpec({ deadlineMs: 1_500 }), orderPlace);

  assert.equal(spec.template.spec.activeDeadlineSeconds, 2);
  assert.equal(spec.activeDeadlineSeconds, 2 + 30 + 600);
});

test("a component's state is its own part of the one claim", () => {
  const place = { ...orderPlace, stateClaim: "state" };
  const pod = jobOrder(someSpec({ stateVolume: "database" }), place).spec.template.spec;

  assert.deepEqual(pod.volumes.at(-1), {
    name: "state",
    persistentVolumeClaim: { claimName: "state" },
  });
  assert.equal(pod.containers[0]?.volumeMounts.at(-1)?.subPath, "database");
  assert.throws(() => jobOrder(someSpec({ stateVolume: "../other" }), place), { code: "invalid" });
});

test("a name is a label of 63 characters at most, and two names are two", () => {
  const long = (end: string) => jobName(`s-${"component-".repeat(6)}${end}`, 1);

  assert.equal(kubeName(jobName("jabc", 1)), "j-jabc-1");
  assert.ok(kubeName(long("a")).length <= 60);
  assert.notEqual(kubeName(long("a")), kubeName(long("b")));
});
