// The objects as a reviewer reads them: what is there, and what must not be.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AGENT_AT_HOME, AGENT_IN_CLUSTER, AGENT_IN_JOBS } from "./access.ts";
import { manifestText, sandboxManifests } from "./manifests.ts";
import { INSTALL_LABEL, type KubeObject, SandboxWish } from "./names.ts";

const wish = SandboxWish.parse({
  install: { id: "iabcdefghijklmnop", name: "acme" },
  imagePrefix: "registry.acme.example/exclave",
  appNamespaces: ["crm"],
});
const objects = sandboxManifests(wish);
const JOBS = "exclave-iabcdefghijklmnop-jobs";
const AGENT = "exclave-iabcdefghijklmnop-agent";

function those(kind: string, namespace?: string): KubeObject[] {
  return objects.filter(
    (one) => one.kind === kind && (namespace === undefined || one.metadata.namespace === namespace),
  );
}

test("the agent may do these things and no others", () => {
  const verbs = [...AGENT_IN_JOBS, ...AGENT_AT_HOME, ...AGENT_IN_CLUSTER].flatMap((rule) =>
    rule.resources.flatMap((resource) => rule.verbs.map((verb) => `${verb} ${resource}`)),
  );

  assert.deepEqual(verbs, [
    "create jobs",
    "get jobs",
    "list jobs",
    "watch jobs",
    "delete jobs",
    "get pods",
    "list pods",
    "watch pods",
    "get pods/log",
    "get leases",
    "update leases",
    "create tokenreviews",
  ]);
  const agents = objects.filter((one) => JSON.stringify(one["subjects"] ?? []).includes('"agent"'));
  assert.deepEqual(
    agents.map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? "everywhere"}`),
    [`RoleBinding ${JOBS}`, `RoleBinding ${AGENT}`, "ClusterRoleBinding everywhere"],
  );
});

test("no job has a right where jobs run, and none beyond the app's namespaces", () => {
  const bound = objects.filter(
    ({ kind }) => kind.endsWith("RoleBinding") || kind === "RoleBinding",
  );
  const jobs = bound.filter((one) => JSON.stringify(one["subjects"]).includes("job-"));

  assert.deepEqual([...new Set(jobs.map(({ metadata }) => metadata.namespace))], ["crm"]);
  assert.ok(!jobs.some((one) => JSON.stringify(one["subjects"]).includes("job-sync")));
});

test("both namespaces of Exclave are restricted, and no account hands its token to every pod", () => {
  const levels = those("Namespace").map(({ metadata }) => [
    metadata.name,
    metadata.labels?.["pod-security.kubernetes.io/enforce"],
  ]);

  assert.deepEqual(levels, [
    [AGENT, "restricted"],
    [JOBS, "restricted"],
    ["crm", "baseline"],
  ]);
  for (const account of those("ServiceAccount")) {
    assert.equal(account["automountServiceAccountToken"], false, account.metadata.name);
  }
});

test("nothing secret is written, and where jobs run nothing secret can be", () => {
  assert.deepEqual(those("Secret"), []);
  const [quota] = those("ResourceQuota", JOBS);
  assert.match(JSON.stringify(quota), /"count\/secrets":"0"/);
});

test("every policy denies, fails closed, and denies without its parameter", () => {
  const policies = those("ValidatingAdmissionPolicy") as unknown as {
    metadata: { name: string };
    spec: { failurePolicy: string; paramKind?: object };
  }[];
  const bindings = those("ValidatingAdmissionPolicyBinding") as unknown as {
    spec: { policyName: string; validationActions: string[]; paramRef?: Record<string, string> };
  }[];

  assert.equal(policies.length, 3);
  for (const { metadata, spec } of policies) {
    const binding = bindings.find((one) => one.spec.policyName === metadata.name);
    assert.equal(spec.failurePolicy, "Fail");
    assert.deepEqual(binding?.spec.validationActions, ["Deny"]);
    assert.equal(binding?.spec.paramRef !== undefined, spec.paramKind !== undefined);
    const action = binding?.spec.paramRef?.["parameterNotFoundAction"] ?? "Deny";
    assert.equal(action, "Deny");
  }
});

test("traffic is denied first, and a job without a network reaches the agent and the registry alone", () => {
  const policies = those("NetworkPolicy", JOBS) as unknown as {
    metadata: { name: string };
    spec: { podSelector: object; egress?: unknown[]; ingress?: unknown[] };
  }[];

  const forAll = policies.filter(({ spec }) => JSON.stringify(spec.podSelector) === "{}");
  assert.deepEqual(
    forAll.map(({ metadata }) => metadata.name),
    ["deny-all", "own-places"],
  );
  assert.ok(policies.every(({ spec }) => spec.ingress === undefined));
  assert.match(JSON.stringify(policies), /"except":\["169\.254\.169\.254\/32"\]/);
});

test("everything carries the install's label, so that nothing is overlooked when it goes", () => {
  for (const { kind, metadata } of objects) {
    assert.equal(metadata.labels?.[INSTALL_LABEL], wish.install.id, `${kind} ${metadata.name}`);
  }
  assert.equal(JSON.parse(manifestText(objects)).items.length, objects.length);
});

test("a prefix that ends in a separator, or a namespace that is none, is refused", () => {
  const wrong = (changes: object) => SandboxWish.safeParse({ ...wish, ...changes }).success;

  assert.ok(!wrong({ imagePrefix: "registry.acme.example/" }));
  assert.ok(!wrong({ imagePrefix: "registry.acme.example/x' || true" }));
  assert.ok(!wrong({ appNamespaces: ["Crm"] }));
  assert.ok(!wrong({ appNamespaces: [] }));
});
