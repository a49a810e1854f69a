// The admission policies of the Kubernetes sandbox against the Jobs that the runtime makes, and against ones it never would:
// their expressions are evaluated here, without an API server.

import assert from "node:assert/strict";
import { test } from "node:test";
import { jobOrder } from "@exclave/runtime/kubernetes";
import { orderPlace, someSpec } from "@exclave/runtime/testing";
import { Environment } from "@marcbachmann/cel-js";
import { sandboxManifests } from "./manifests.ts";
import { SandboxWish } from "./names.ts";

type Json = ReturnType<typeof JSON.parse>;

const PREFIX = "registry.test:5000";
const wish = SandboxWish.parse({
  install: { id: "iabc", name: "acme" },
  imagePrefix: PREFIX,
  appNamespaces: ["crm"],
});
const policies = sandboxManifests(wish).filter(({ kind }) => kind === "ValidatingAdmissionPolicy");
const cel = new Environment({ unlistedVariablesAreDyn: true });

/** The messages of the rules that the object breaks. */
function broken(name: string, object: Json): string[] {
  const { spec }: Json = policies.find(({ metadata }) => metadata.name === `exclave-iabc-${name}`);
  const scope = { object: whole(object), params: { data: { prefix: PREFIX } } };
  const variables = Object.fromEntries(
    (spec.variables ?? []).map(({ name: key, expression }: Json) => [
      key,
      cel.evaluate(expression, scope),
    ]),
  );
  return spec.validations
    .filter(({ expression }: Json) => !holds(expression, { ...scope, variables }))
    .map(({ message }: Json) => message);
}

/** What cannot be evaluated is denied: `failurePolicy` is `Fail`. */
function holds(expression: string, scope: Json): boolean {
  try {
    return cel.evaluate(expression, scope) === true;
  } catch {
    return false;
  }
}

/** As the API has it: what is undefined is not there, and whole numbers are whole. */
function whole(value: Json): Json {
  return JSON.parse(JSON.stringify(value), (_key, part) =>
    Number.isInteger(part) ? BigInt(part) : part,
  );
}

function changed(change: (job: Json, pod: Json) => void): Json {
  const place = { ...orderPlace, stateClaim: "exclave-state" };
  const job: Json = structuredClone(jobOrder(someSpec({ stateVolume: "api" }), place));
  change(job, job.spec.template.spec);
  return job;
}

test("a Job as the runtime makes it is let in, of every class that an install has", () => {
  assert.deepEqual(
    broken(
      "jobs",
      changed(() => undefined),
    ),
    [],
  );
  for (const jobClass of ["sync", "plan", "apply", "debug"] as const) {
    assert.deepEqual(broken("jobs", jobOrder(someSpec({ jobClass }), orderPlace)), [], jobClass);
  }
});

const DIGEST = `@sha256:${"a".repeat(64)}`;
const REFUSED: Readonly<Record<string, (job: Json, pod: Json) => void>> = {
  "an image from elsewhere": (_, pod) => {
    pod.containers[0].image = `docker.io/library/x${DIGEST}`;
  },
  "a registry whose name only begins like the install's": (_, pod) => {
    pod.containers[0].image = `${PREFIX}0/apps/crm${DIGEST}`;
  },
  "an image by tag": (_, pod) => {
    pod.containers[0].image = `${PREFIX}/apps/crm:latest`;
  },
  "a second container": (_, pod) => pod.containers.push(pod.containers[0]),
  "an init container": (_, pod) => {
    pod.initContainers = [pod.containers[0]];
  },
  "an account that is no job's": (_, pod) => {
    pod.serviceAccountName = "default";
  },
  "the account of another class": (_, pod) => {
    pod.serviceAccountName = "job-debug";
  },
  "no account": (_, pod) => {
    delete pod.serviceAccountName;
  },
  retries: (job) => {
    job.spec.backoffLimit = 3;
  },
  "no word on retries": (job) => {
    delete job.spec.backoffLimit;
  },
  "two at once": (job) => {
    job.spec.parallelism = 2;
  },
  "no deadline": (job) => {
    delete job.spec.activeDeadlineSeconds;
  },
  "a Secret as a volume": (_, pod) => pod.volumes.push({ name: "x", secret: { secretName: "x" } }),
  "a Secret among projections": (_, pod) =>
    pod.volumes.push({ name: "x", projected: { sources: [{ secret: { name: "x" } }] } }),
  "a token for the API among projections": (_, pod) =>
    pod.volumes.push({
      name: "x",
      projected: { sources: [{ serviceAccountToken: { path: "x" } }] },
    }),
  "a directory of the node": (_, pod) => pod.volumes.push({ name: "x", hostPath: { path: "/" } }),
  "another claim": (_, pod) =>
    pod.volumes.push({ name: "x", persistentVolumeClaim: { claimName: "other" } }),
  "environment from a Secret": (_, pod) => {
    pod.containers[0].envFrom = [{ secretRef: { name: "x" } }];
  },
  "a variable from a Secret": (_, pod) =>
    pod.containers[0].env.push({ name: "X", valueFrom: { secretKeyRef: { name: "x", key: "y" } } }),
  "no limits": (_, pod) => {
    delete pod.containers[0].resources.limits;
  },
  "a root that can be written": (_, pod) => {
    pod.containers[0].securityContext.readOnlyRootFilesystem = false;
  },
  "the node's network": (_, pod) => {
    pod.hostNetwork = true;
  },
};

for (const [what, change] of Object.entries(REFUSED)) {
  test(`a Job with ${what} is refused`, () => {
    assert.notDeepEqual(broken("jobs", changed(change)), []);
  });
}

test("a sync that wants a token for the cluster is refused", () => {
  const order: Json = structuredClone(jobOrder(someSpec({ jobClass: "sync" }), orderPlace));
  order.spec.template.spec.automountServiceAccountToken = true;

  assert.deepEqual(broken("jobs", order), ["a sync has no token for the cluster"]);
});

test("pods run images of the install's registry, however they name them, and of no other", () => {
  const pod = (...images: string[]) => ({
    spec: { containers: images.map((image) => ({ image })) },
  });

  for (const image of [`${PREFIX}/a:1`, `${PREFIX}/a${DIGEST}`]) {
    assert.deepEqual(broken("images", pod(image)), [], image);
  }
  for (const image of ["a", "docker.io/a", `${PREFIX}evil/a`, `evil/${PREFIX}/a`, PREFIX]) {
    assert.equal(broken("images", pod(`${PREFIX}/a:1`, image)).length, 1, image);
  }
  const hidden = [
    { initContainers: [{ image: "evil" }] },
    { ephemeralContainers: [{ image: "evil" }] },
    { volumes: [{ image: { reference: "evil" } }] },
  ];
  for (const part of hidden) {
    const { spec } = pod(`${PREFIX}/a:1`);
    assert.equal(broken("images", { spec: { ...spec, ...part } }).length, 1, JSON.stringify(part));
  }
});
