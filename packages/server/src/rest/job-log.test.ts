import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { getJobLog } from "@exclave/api";
import { createMemoryJobLogs } from "../job/memory-job-logs.ts";
import { createMemoryStore } from "../store/memory/memory-store.ts";
import { AT, jobRow } from "../testing/rows.ts";
import type { HandlerInput } from "./handler.ts";
import { JOB_HANDLERS } from "./jobs.ts";

test("reading a log is paid for by its bytes", async () => {
  const store = createMemoryStore();
  const logs = createMemoryJobLogs();
  const bytes = 3 * 1024 * 1024;
  const job = jobRow({ state: { status: "succeeded", since: AT }, endedAt: AT });
  await store.transaction((tx) => tx.jobs.put(job));
  await logs.append(job.id, job.attempt, 0, Buffer.alloc(bytes, "x"));
  const raw = Object.assign(new PassThrough(), { writeHead: () => raw, flushHeaders() {} });
  let received = 0;
  raw.on("data", (chunk: Buffer) => {
    received += chunk.length;
  });
  let units = 0;
  const reading = JOB_HANDLERS.find(({ call }) => call.name === getJobLog.name);
  const input = {
    params: { job: job.id },
    query: { from: 0, follow: false },
    reply: { raw, hijack: () => undefined },
    charge: (paid: number) => {
      units += paid;
    },
    context: { store, logs, followers: { enter: () => () => undefined } },
  };

  await reading?.handle(input as unknown as HandlerInput<never>);

  assert.equal(units, 3);
  assert.equal(received, bytes);
});
