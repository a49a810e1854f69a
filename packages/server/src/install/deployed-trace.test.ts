import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppConfig, PluginDescriptor } from "@exclave/core";
import { installRow, refNamed, releaseRow } from "../testing/rows.ts";
import { digestNamed } from "../testing/scripted-vendor.ts";
import { traceFromRelease } from "./deployed-trace.ts";

const descriptor = {
  operations: { apply: { effect: "at-most-once" }, destroy: { effect: "idempotent" } },
} as unknown as PluginDescriptor;

const RELEASE = releaseRow({
  id: "r2",
  plugins: [
    {
      type: "migration",
      descriptor,
      plugin: refNamed("exclave/plugins/migration"),
      own: false,
      source: null,
      buildKey: null,
      job: null,
      reused: true,
    },
  ],
  components: [
    {
      name: "schema",
      type: "migration",
      source: digestNamed("source"),
      buildKey: digestNamed("build"),
      artifact: refNamed("apps/crm/schema"),
      job: null,
      reused: false,
    },
  ],
});
const APP = {
  inputs: [],
  secrets: [],
  components: [
    {
      name: "schema",
      type: "migration",
      config: { table: "people" },
      uses: { inputs: [], secrets: [], components: ["database"] },
      needs: ["database"],
    },
  ],
} as unknown as AppConfig;

test("an apply of a known release leaves a trace by which it can be taken down", () => {
  const trace = traceFromRelease(installRow(), RELEASE, APP, "schema");

  assert.deepEqual(
    [trace?.release, trace?.type, trace?.plugin, trace?.artifact, trace?.config],
    [
      "r2",
      "migration",
      refNamed("exclave/plugins/migration"),
      refNamed("apps/crm/schema"),
      { table: "people" },
    ],
  );
  assert.deepEqual(trace?.dependsOn, ["database"]);
  assert.equal(trace?.effects.apply, "at-most-once");
});

test("a component that its release does not have leaves none", () => {
  assert.equal(traceFromRelease(installRow(), RELEASE, APP, "web"), undefined);
});
