import assert from "node:assert/strict";
import { test } from "node:test";
import { DEADLINE_MS_MAX, Failure, Instant, ManifestStep } from "@exclave/core";
import { createMemoryStore } from "../store/memory/memory-store.ts";
import { refNamed } from "../testing/rows.ts";
import { issueJob, type JobOrder } from "./issue-job.ts";

const order: JobOrder = {
  audience: "build",
  step: ManifestStep.parse({
    operation: "exec",
    effect: "at-most-once",
    plugin: refNamed("exclave/plugins/command"),
    config: {},
  }),
  purpose: { kind: "request" },
  because: "a test",
  requestedBy: "token:admin",
};

test("whoever asks for a deadline that no agent takes is told, and nothing is issued", async () => {
  const store = createMemoryStore();
  const context = { now: () => Instant.parse(1_000) };
  const issue = (deadlineMs: number) =>
    store.transaction((tx) => issueJob(tx, context, { ...order, deadlineMs }));

  await assert.rejects(issue(DEADLINE_MS_MAX + 1), (reason) => {
    assert.ok(reason instanceof Failure);
    assert.equal(reason.code, "too_large");
    assert.match(reason.message, /exec cannot be issued: .* 7 at most/);
    return true;
  });

  assert.equal((await store.read.jobs.list({ limit: 10 })).items.length, 0);
});
