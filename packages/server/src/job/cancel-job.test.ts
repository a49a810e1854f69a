import assert from "node:assert/strict";
import { test } from "node:test";
import { Instant } from "@exclave/core";
import type { ServerContext } from "../context.ts";
import { createMemoryStore } from "../store/memory/memory-store.ts";
import type { JobRow } from "../store/rows.ts";
import { ACME, agentRow, installRow, jobRow } from "../testing/rows.ts";
import { cancelJob } from "./cancel-job.ts";

const QUEUED_AT = Instant.parse(1_000);
const NOW = Instant.parse(9_000);

/** A job that waits for its agent, cancelled on a server that was started at some time. */
async function cancelled(startedAt: number, changes: Partial<JobRow> = {}) {
  const store = createMemoryStore();
  const state = { status: "queued", since: QUEUED_AT } as const;
  const job = jobRow({ component: "api", state, ...changes });
  const { id, attempt } = job;
  await store.transaction(async (tx) => {
    await tx.installs.put(installRow());
    await tx.agents.put(agentRow({ seenAt: QUEUED_AT, everConnected: true }));
    await tx.jobs.put(job);
    await tx.outbox.add(ACME, { type: "job_offer", job: id, attempt, payload: "" });
  });
  const wake = { outbox() {}, releases() {}, install() {} };
  const context = { store, wake, now: () => NOW, startedAt: Instant.parse(startedAt) };
  const row = await cancelJob(context as unknown as ServerContext, { id, graceMs: 1, by: "eve" });
  const waiting = await store.read.outbox.waiting(ACME, 10);
  const [component] = await store.read.components.ofInstall(ACME);
  return { row, component, sent: waiting.map(({ body }) => body.type) };
}

test("a job that no agent has heard of is cancelled at once, and its offer is withdrawn", async () => {
  const { row, sent } = await cancelled(QUEUED_AT);

  assert.equal(row.state.status, "cancelled");
  assert.equal(row.failure?.code, "cancelled");
  assert.deepEqual(sent, []);
});

test("one that an earlier state of the server may have offered ends as unknown, and its agent is told", async () => {
  const { row, sent } = await cancelled(QUEUED_AT + 1);

  assert.equal(row.state.status, "unknown");
  assert.equal(row.failure?.code, "cancelled");
  assert.equal(row.logComplete, false);
  assert.deepEqual(sent, ["job_cancel"]);
});

test("what runs at most once is not repeated by itself after that", async () => {
  const once = await cancelled(QUEUED_AT + 1, { effect: "at-most-once" });
  const unheard = await cancelled(QUEUED_AT, { effect: "at-most-once" });

  assert.equal(once.component?.lastFailure?.mayRepeat, false);
  assert.equal(unheard.component?.lastFailure?.mayRepeat, undefined);
});
