import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobState } from "../job/job-state.ts";
import { now, ref } from "./install.testing.ts";
import { planStops, type StopFacts, type StoppableJob } from "./plan-stops.ts";

const refNamed = (name: string) => ref(name, name);
const QUEUED: JobState = { status: "queued", since: now };

function job(kind: string, state = QUEUED): StoppableJob {
  return { purpose: { kind }, state };
}

function sync(materials: readonly string[], state = QUEUED): StoppableJob {
  return { purpose: { kind: "sync", materials: materials.map(refNamed) }, state };
}

function stops(mode: StopFacts<StoppableJob>["install"]["mode"], ...open: StoppableJob[]) {
  const api = { deployed: { plugin: refNamed("plugin"), release: "r1" }, attempted: null };
  const indexes = new Map([["r1", refNamed("index")]]);
  return planStops({ install: { mode }, components: [api], indexes, open });
}

test("stops the sync of an install that is to be destroyed, and of no other", () => {
  const web = sync(["apps/crm/web"]);

  assert.deepEqual(stops("destroyed", web), [web]);
  assert.deepEqual(stops("present", web), []);
});

test("leaves a sync that brings what the destroy needs", () => {
  for (const needed of ["plugin", "index"]) {
    assert.deepEqual(stops("destroyed", sync(["apps/crm/web", needed])), []);
  }
});

test("stops log requests and debug commands of an install that is to be destroyed", () => {
  const logs = job("request");

  assert.deepEqual(stops("destroyed", logs), [logs]);
  assert.deepEqual(stops("present", logs), []);
});

test("asks once", () => {
  const running = (cancelRequested: boolean) =>
    sync([], { status: "running", since: now, cancelRequested });

  assert.equal(stops("destroyed", running(false)).length, 1);
  assert.equal(stops("destroyed", running(true)).length, 0);
});

test("leaves what may have changed something already", () => {
  assert.deepEqual(stops("destroyed", job("apply"), job("teardown")), []);
});
