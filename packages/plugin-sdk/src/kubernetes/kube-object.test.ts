import assert from "node:assert/strict";
import { test } from "node:test";
import { keyOf, nameOf, readObjects, refOf } from "./kube-object.ts";
import { clusterFailure, isNotKnownYet } from "./kubectl.ts";
import { isBackground } from "./own-namespace.ts";
import { checkChanges, digestOf } from "./planned-changes.ts";

test("reads every object of a manifest and takes lists apart", () => {
  const text = `
apiVersion: v1
kind: List
items:
  - { apiVersion: v1, kind: ConfigMap, metadata: { name: a } }
---
# Source: nothing
---
{ apiVersion: apps/v1, kind: Deployment, metadata: { name: b, namespace: team } }
`;

  const refs = readObjects(text, "f").map(refOf);

  assert.deepEqual(refs.map(keyOf), ["ConfigMap.//a", "Deployment.apps/team/b"]);
  assert.deepEqual(refs.map(nameOf), ["ConfigMap a", "Deployment team/b"]);
});

test("refuses what is no object of Kubernetes", () => {
  assert.throws(() => readObjects("apiVersion: v1\nkind: Pod\n", "f"), {
    code: "invalid",
    message: /^f holds what is not a Kubernetes object: metadata/,
  });
});

test("an object whose kind or namespace comes with the same apply is no failure", () => {
  assert.ok(isNotKnownYet('Error from server (NotFound): namespaces "team" not found'));
  assert.ok(isNotKnownYet('no matches for kind "Lamp" in version "exclave.test/v1"'));
  assert.ok(!isNotKnownYet("Deployment.apps is invalid: spec.replicas"));
});

test("sorts what a cluster says by who has to act", () => {
  const codeOf = (line: string) => clusterFailure("cannot apply", [line]).code;

  assert.equal(codeOf("dial tcp 127.0.0.1:6443: connect: connection refused"), "unavailable");
  assert.equal(codeOf('pods is forbidden: User "a" cannot list'), "forbidden");
  assert.equal(codeOf("You must be logged in to the server (Unauthorized)"), "unauthenticated");
  assert.equal(codeOf('Deployment "a" is invalid: field is immutable'), "invalid");
  assert.equal(codeOf("something else"), "tool");
});

test("holds an apply to the changes that were planned", () => {
  const changes = ['["create","ConfigMap.//a"]', '["delete","ConfigMap.//b"]'];

  checkChanges(changes, changes);
  assert.throws(() => checkChanges(changes, changes.slice(0, 1)), {
    code: "conflict",
    message: /ConfigMap\.\/\/b was changed in the cluster; plan again/,
  });
  assert.throws(() => checkChanges([], changes), { code: "conflict" });
});

test("the same values have the same digest, in whatever order", () => {
  assert.equal(digestOf({ a: 1, b: { c: 2, d: 3 } }), digestOf({ b: { d: 3, c: 2 }, a: 1 }));
  assert.notEqual(digestOf({ a: [1, 2] }), digestOf({ a: [2, 1] }));
});

test("a namespace with nothing but what every one has is empty", () => {
  assert.ok(isBackground("configmap/kube-root-ca.crt"));
  assert.ok(isBackground("serviceaccount/default"));
  assert.ok(!isBackground("configmap/settings"));
});
