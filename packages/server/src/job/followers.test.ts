import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { jobId, jobRow } from "../testing/rows.ts";
import { createFollowers } from "./followers.ts";

const logs = jobRow({ id: jobId("a"), operation: "logs", purpose: { kind: "request" } });
const exec = jobRow({ id: jobId("b"), operation: "exec", purpose: { kind: "request" } });
const apply = jobRow({ id: jobId("c") });

function watched(graceMs = 1) {
  const abandoned: string[] = [];
  const followers = createFollowers({
    graceMs,
    onAbandoned: async (id) => void abandoned.push(id),
  });
  return { followers, abandoned };
}

test("a log or a debug command is given up when its last reader has gone, and nothing else is", async () => {
  const { followers, abandoned } = watched();
  const leave = [logs, logs, exec, apply].map((job) => followers.enter(job));

  leave[0]?.();
  leave[0]?.();
  await sleep(20);
  assert.deepEqual(abandoned, []);
  for (const each of leave) each();
  await sleep(20);

  assert.deepEqual(abandoned.sort(), [logs.id, exec.id]);
});

test("a reader that comes back within the grace time keeps the job", async () => {
  const { followers, abandoned } = watched(100);

  followers.enter(logs)();
  followers.enter(logs);
  await sleep(150);

  assert.deepEqual(abandoned, []);
});

test("a log nobody has come for since the start is given up, a debug command is not", async () => {
  const { followers, abandoned } = watched();

  followers.expect([logs, exec, apply]);
  await sleep(20);

  assert.deepEqual(abandoned, [logs.id]);
});

test("nothing is given up after the end", async () => {
  const { followers, abandoned } = watched();
  const leave = followers.enter(logs);

  followers.stop();
  leave();
  await sleep(20);

  assert.deepEqual(abandoned, []);
});
