import assert from "node:assert/strict";
import { test } from "node:test";
import { type KubeObject, refOf } from "@exclave/plugin-sdk/kubernetes";
import {
  findUnwanted,
  marked,
  ownerName,
  phasesOf,
  refuseForeign,
  refuseTwice,
} from "./ownership.ts";

const OWNER = ownerName("iaaaaaaaaaaaaaaaa", "web");

test("prunes what was owned, is there, is still ours and is wanted no more", () => {
  const kept = object("ConfigMap", "kept");
  const dropped = object("ConfigMap", "dropped");
  const taken = object("ConfigMap", "taken");
  const gone = object("ConfigMap", "gone");
  const owned = [kept, dropped, taken, gone];
  const live = [ours(kept), ours(dropped), marked(taken, "other.owner"), undefined];

  const unwanted = findUnwanted(owned, live, [refOf(kept)], OWNER);

  assert.deepEqual(
    unwanted.map(({ metadata }) => metadata.name),
    ["dropped"],
  );
});

test("what somebody took the label from is not ours any more", () => {
  const object1 = object("Secret", "a");

  assert.deepEqual(findUnwanted([object1], [object1], [], OWNER), []);
});

test("an owner that is lost from memory deletes nothing", () => {
  assert.deepEqual(findUnwanted([], [], [], OWNER), []);
});

test("an object that somebody else made is refused, unless it may be adopted", () => {
  const foreign = object("Service", "db");

  refuseForeign([ours(object("Service", "web")), undefined], OWNER, false);
  assert.throws(() => refuseForeign([foreign], OWNER, false), {
    code: "conflict",
    message: /Service team\/db is in the cluster already/,
  });
  refuseForeign([foreign], OWNER, true);
});

test("another component's object is never adopted", () => {
  const other = marked(object("Service", "db"), ownerName("iaaaaaaaaaaaaaaaa", "api"));

  assert.throws(() => refuseForeign([other], OWNER, true), {
    code: "conflict",
    message: /belongs to another component, iaaaaaaaaaaaaaaaa\.api/,
  });
});

test("what others stand on comes first", () => {
  const kinds = [
    "Deployment",
    "Lamp",
    "RoleBinding",
    "ConfigMap",
    "CustomResourceDefinition",
    "Namespace",
  ];

  const phases = phasesOf(kinds.map((kind) => object(kind, "a")));

  assert.deepEqual(
    phases.map((phase) => phase.map(({ kind }) => kind)),
    [
      ["Namespace"],
      ["CustomResourceDefinition"],
      ["ConfigMap"],
      ["RoleBinding"],
      ["Deployment", "Lamp"],
    ],
  );
});

test("an object that is in the manifests twice is refused", () => {
  const implicit: KubeObject = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } };

  refuseTwice([object("ConfigMap", "a"), object("Secret", "a")], "team");
  assert.throws(() => refuseTwice([object("ConfigMap", "a"), implicit], "team"), {
    code: "invalid",
  });
});

function object(kind: string, name: string): KubeObject {
  return { apiVersion: "v1", kind, metadata: { name, namespace: "team" } };
}

function ours(one: KubeObject): KubeObject {
  return marked(one, OWNER);
}
