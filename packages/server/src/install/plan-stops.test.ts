import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobState } from "@exclave/core";
import type { InstallRow, JobRow } from "../store/rows.ts";
import { ACME, AT, deployedRow, installRow, jobRow, refNamed } from "../testing/rows.ts";
import { digestNamed } from "../testing/scripted-vendor.ts";
import { emptyComponent } from "./empty-component.ts";
import { planStops } from "./plan-stops.ts";

const api = { ...emptyComponent(ACME, "api", "command"), deployed: deployedRow() };

function sync(materials: readonly string[], state?: JobState): JobRow {
  const purpose = { kind: "sync", key: digestNamed("key"), materials: materials.map(refNamed) };
  return jobRow({ purpose: purpose as JobRow["purpose"], ...(state ? { state } : {}) });
}

function stops(mode: InstallRow["mode"], ...open: readonly JobRow[]) {
  const facts = { install: installRow({ mode }), components: [api], isSetupOnline: true };
  const indexes = new Map([["r1", refNamed("index")]]);
  const releases = new Map();
  return planStops({ ...facts, indexes, releases, open, isAgentOnline: true });
}

test("stops the sync of an install that is to be destroyed, and of no other", () => {
  const job = sync(["apps/crm/web"]);

  assert.deepEqual(stops("destroyed", job), [job]);
  assert.deepEqual(stops("present", job), []);
});

test("leaves a sync that brings what the destroy needs", () => {
  for (const needed of ["plugin", "index"]) {
    assert.deepEqual(stops("destroyed", sync(["apps/crm/web", needed])), []);
  }
});

test("stops log requests and debug commands of an install that is to be destroyed", () => {
  const logs = jobRow({ operation: "logs", purpose: { kind: "request" } });

  assert.deepEqual(stops("destroyed", logs), [logs]);
  assert.deepEqual(stops("present", logs), []);
});

test("asks once", () => {
  const running = (cancelRequested: boolean) =>
    sync([], { status: "running", since: AT, cancelRequested });

  assert.equal(stops("destroyed", running(false)).length, 1);
  assert.equal(stops("destroyed", running(true)).length, 0);
});

test("leaves what may have changed something already", () => {
  const apply = jobRow({ purpose: { kind: "apply", deployed: deployedRow() }, component: "api" });

  assert.deepEqual(stops("destroyed", apply, jobRow({ purpose: { kind: "teardown" } })), []);
});
