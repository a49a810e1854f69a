// What every keeper of job logs promises, as tests: a log grows at its end only, is read from any
// offset, and says how much of it was left out.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, type TestContext, test } from "node:test";
import type { JobLogs } from "../job/job-logs.ts";
import { jobId } from "./rows.ts";

const JOB = jobId("a");
const bytes = (text: string) => Buffer.from(text);

export function describeJobLogs(
  name: string,
  create: (t: TestContext, options: { readonly logBytesMax: number }) => Promise<JobLogs>,
): void {
  describe(`${name} keeps the contract of job logs`, () => {
    test("gives back from any offset what was appended, attempts apart", async (t) => {
      const logs = await create(t, { logBytesMax: 1_000 });
      await logs.append(JOB, 1, 0, bytes("hello "));
      await logs.append(JOB, 1, 6, bytes("world"));
      await logs.append(JOB, 2, 0, bytes("again"));

      assert.equal(await logs.sizeBytes(JOB, 1), 11);
      assert.equal(await text(logs, 1, 0), "hello world");
      assert.equal(await text(logs, 1, 9), "ld");
      assert.equal(await text(logs, 2, 0), "again");
      assert.equal(await logs.sha256(JOB, 1), sha256("hello world"));
    });

    test("has no bytes of a log nobody wrote", async (t) => {
      const logs = await create(t, { logBytesMax: 1_000 });

      assert.equal(await logs.sizeBytes(JOB, 1), 0);
      assert.equal(await text(logs, 1, 0), "");
    });

    test("refuses bytes that do not begin where the log ends", async (t) => {
      const logs = await create(t, { logBytesMax: 1_000 });
      await logs.append(JOB, 1, 0, bytes("hello"));

      await assert.rejects(logs.append(JOB, 1, 3, bytes("lo again")), /ends at 5, not at 3/);
      await assert.rejects(logs.append(JOB, 1, 9, bytes("a gap")), /ends at 5, not at 9/);
      assert.equal(await text(logs, 1, 0), "hello");
    });

    test("counts bytes over the limit and keeps none of them", async (t) => {
      const logs = await create(t, { logBytesMax: 8 });
      await logs.append(JOB, 1, 0, bytes("hello "));
      await logs.append(JOB, 1, 6, bytes("world"));
      await logs.append(JOB, 1, 11, bytes(" and more"));

      assert.equal(await logs.sizeBytes(JOB, 1), 20);
      assert.equal(await text(logs, 1, 0), "hello wo");
      assert.equal(logs.leftOutBytes(20), 12);
      assert.equal(logs.leftOutBytes(8), 0);
    });

    test("forgets a log that is removed, and removing it again is no error", async (t) => {
      const logs = await create(t, { logBytesMax: 1_000 });
      await logs.append(JOB, 1, 0, bytes("hello"));

      await logs.remove(JOB, 1);
      await logs.remove(JOB, 1);

      assert.equal(await logs.sizeBytes(JOB, 1), 0);
    });

    test("wakes whoever waits for a log to grow, or whoever stops waiting", async (t) => {
      const logs = await create(t, { logBytesMax: 1_000 });
      const stopping = new AbortController();
      const woken = logs.grown(JOB, 1, stopping.signal);
      const stopped = logs.grown(JOB, 2, stopping.signal);

      await logs.append(JOB, 1, 0, bytes("hello"));
      await woken;
      stopping.abort();
      await stopped;
      await logs.grown(JOB, 2, stopping.signal);
    });
  });
}

async function text(logs: JobLogs, attempt: number, from: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of logs.read(JOB, attempt, from)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

function sha256(content: string): string {
  return createHash("sha256").update(content).digest("hex");
}
