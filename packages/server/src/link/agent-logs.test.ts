import assert from "node:assert/strict";
import { test } from "node:test";
import { createMemoryJobLogs } from "../job/memory-job-logs.ts";
import { createMemoryStore } from "../store/memory/memory-store.ts";
import type { JobRow } from "../store/rows.ts";
import { AT, agentRow, jobRow } from "../testing/rows.ts";
import { writableLog } from "./agent-logs.ts";

/** How much of its log the agent may still send: more than it has is no limit. */
async function mostOf(changes: Partial<JobRow>): Promise<number> {
  const store = createMemoryStore();
  const job = jobRow(changes);
  await store.transaction((tx) => tx.jobs.put(job));
  const context = { store, logs: createMemoryJobLogs() };
  const log = await writableLog(
    context,
    agentRow(),
    { job: job.id, attempt: job.attempt },
    "writer",
  );
  return log?.most ?? Infinity;
}

test("a log ends where its agent said, and one that was abandoned where its agent has no more", async () => {
  const because = "the agent knows nothing of this job any more";
  const failed = { status: "failed", since: AT, code: "tool", message: "exit 1" } as const;
  const cancelled = { status: "cancelled", since: AT } as const;
  const unknown = { status: "unknown", since: AT, because } as const;
  const running = { status: "running", since: AT, cancelRequested: false } as const;
  const log = { bytes: 7, sha256: "" };

  assert.equal(await mostOf({ state: running }), Infinity);
  assert.equal(await mostOf({ state: failed, endedAt: AT, log }), 7);
  assert.equal(await mostOf({ state: cancelled, endedAt: AT, log: null }), 0);
  assert.equal(await mostOf({ state: unknown, endedAt: AT, log }), 7);
  assert.equal(await mostOf({ state: unknown, endedAt: AT, log: null }), Infinity);
});
