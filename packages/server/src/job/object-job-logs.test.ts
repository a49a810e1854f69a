// What is special about logs in objects: several servers, pieces that are merged, a store that fails.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { type TestContext, test } from "node:test";
import {
  createMemoryObjectStore,
  createS3ObjectStore,
  type ObjectStore,
} from "@exclave/oci/objects";
import { startFakeS3 } from "@exclave/oci/testing/objects";
import { jobId } from "../testing/rows.ts";
import type { JobLogs } from "./job-logs.ts";
import { chunkName } from "./log-chunks.ts";
import { createObjectJobLogs } from "./object-job-logs.ts";

const JOB = jobId("a");

test("a log goes on at another server, and back, where each begins with a fresh look", async () => {
  const objects = createMemoryObjectStore();
  const [one, other] = [createObjectJobLogs(objects), createObjectJobLogs(objects)];
  await one.append(JOB, 1, 0, Buffer.from("first "));

  assert.equal(await other.sizeBytes(JOB, 1, { by: "new_writer" }), 6);
  await other.append(JOB, 1, 6, Buffer.from("second "));
  assert.equal(await one.sizeBytes(JOB, 1, { by: "new_writer" }), 13);
  await one.append(JOB, 1, 13, Buffer.from("third"));

  assert.equal(await textOf(createObjectJobLogs(objects)), "first second third");
  assert.equal(await one.sha256(JOB, 1), sha256("first second third"));
});

test("a server that was thought dead cannot shorten what another has taken in", async () => {
  const objects = createMemoryObjectStore();
  const [dead, alive] = [createObjectJobLogs(objects), createObjectJobLogs(objects)];
  await dead.append(JOB, 1, 0, Buffer.from("abc"));
  await alive.append(JOB, 1, 3, Buffer.from("defghi"));

  await dead.append(JOB, 1, 3, Buffer.from("de"));

  assert.equal(await alive.sizeBytes(JOB, 1, { by: "new_writer" }), 9);
  assert.equal(await textOf(createObjectJobLogs(objects)), "abcdefghi");
});

test("many small pieces become few while the log grows, and one when it is complete", async () => {
  const objects = createMemoryObjectStore();
  const logs = createObjectJobLogs(objects);
  let text = "";
  for (let n = 0; n < 500; n++) {
    await logs.append(JOB, 1, text.length, Buffer.from(`line ${n}\n`));
    text += `line ${n}\n`;
  }
  await logs.close();
  const growing = (await keysOf(objects)).length;
  const again = createObjectJobLogs(objects);
  again.seal(JOB, 1);
  await again.close();

  assert.ok(growing < 250, `${growing} objects`);
  assert.equal((await keysOf(objects)).length, 1);
  assert.equal(await textOf(createObjectJobLogs(objects)), text);
  assert.equal(await textOf(logs), text);
});

test("goes on reading when pieces are merged away under the reader", async () => {
  const objects = createMemoryObjectStore();
  const logs = createObjectJobLogs(objects);
  await logs.append(JOB, 1, 0, Buffer.from("one "));
  await logs.append(JOB, 1, 4, Buffer.from("two "));
  await logs.append(JOB, 1, 8, Buffer.from("three"));
  const reading = logs.read(JOB, 1, 0)[Symbol.asyncIterator]();
  const first = await reading.next();

  const other = createObjectJobLogs(objects);
  other.seal(JOB, 1);
  await other.close();
  const rest: string[] = [];
  for (let next = await reading.next(); !next.done; next = await reading.next()) {
    rest.push(String(Buffer.from(next.value)));
  }

  assert.equal(String(first.value), "one ");
  assert.equal(rest.join(""), "two three");
});

test("a merge that was killed before it removed anything leaves the log as it is", async () => {
  const objects = createMemoryObjectStore();
  const logs = createObjectJobLogs(objects);
  await logs.append(JOB, 1, 0, Buffer.from("one "));
  await logs.append(JOB, 1, 4, Buffer.from("two"));
  const [first = ""] = await keysOf(objects);
  const place = first.slice(0, first.lastIndexOf("/") + 1);
  await objects.write(place + chunkName({ start: 0, end: 7 }), Buffer.from("one two"));

  const next = createObjectJobLogs(objects);
  assert.equal(await textOf(next), "one two");
  await next.append(JOB, 1, 7, Buffer.from("!"));
  next.seal(JOB, 1);
  await next.close();

  assert.deepEqual(await keysOf(objects), [place + chunkName({ start: 0, end: 8 })]);
  assert.equal(await textOf(createObjectJobLogs(objects)), "one two!");
});

test("removes all pieces of a log and none of another", async () => {
  const objects = createMemoryObjectStore();
  const logs = createObjectJobLogs(objects);
  for (let n = 0; n < 40; n++) await logs.append(JOB, 1, n, Buffer.from("x"));
  await logs.append(JOB, 11, 0, Buffer.from("stays"));

  await logs.remove(JOB, 1);

  assert.equal((await keysOf(objects)).length, 1);
  assert.equal(await logs.sizeBytes(JOB, 11), 5);
});

test("acknowledges nothing while the store is away, and takes the same bytes when it is back", async (t) => {
  const { logs, fake } = await overS3(t);
  await logs.append(JOB, 1, 0, Buffer.from("before "));
  fake.isAway = true;
  await assert.rejects(logs.append(JOB, 1, 7, Buffer.from("during")), /cannot reach bucket/);
  fake.isAway = false;

  assert.equal(await logs.sizeBytes(JOB, 1, { by: "new_writer" }), 7);
  await logs.append(JOB, 1, 7, Buffer.from("during"));

  assert.equal(await textOf(logs), "before during");
});

test("an append whose answer was lost is in the log once", async (t) => {
  const { logs, fake } = await overS3(t);
  let isLost = false;
  fake.fault = (name) => {
    if (isLost || !name.startsWith("PUT")) return undefined;
    isLost = true;
    return { kind: "lost" };
  };

  await logs.append(JOB, 1, 0, Buffer.from("once"));

  assert.ok(isLost);
  assert.equal(await textOf(logs), "once");
});

test("a log of 16 MiB in frames of 256 KiB takes four requests a megabyte to take in, and twelve to be one object", async (t) => {
  const { logs, fake, store } = await overS3(t);
  const bytes = randomBytes(16 * 1024 * 1024);
  const frame = 256 * 1024;
  for (let at = 0; at < bytes.length; at += frame) {
    assert.equal(await logs.sizeBytes(JOB, 1, { by: "writer" }), at);
    await logs.append(JOB, 1, at, bytes.subarray(at, at + frame));
  }
  const digest = await logs.sha256(JOB, 1);
  const appending = fake.requests.filter((name) => name.startsWith("PUT") && !name.includes("?"));
  await logs.close();
  const sealing = createObjectJobLogs(store);
  sealing.seal(JOB, 1);
  await sealing.close();

  assert.equal(digest, createHash("sha256").update(bytes).digest("hex"));
  assert.equal(appending.length, 64);
  assert.ok(fake.requests.length <= 16 * 16, `${fake.requests.length} requests`);
  assert.equal(fake.objects.size, 1);
});

async function overS3(t: TestContext) {
  const fake = await startFakeS3();
  const store = createS3ObjectStore({
    settings: fake.settings,
    patience: { pauseMs: 1, pauseMsMax: 2 },
  });
  t.after(async () => {
    store.close();
    await fake.close();
  });
  return { fake, store, logs: createObjectJobLogs(store) };
}

async function textOf(logs: JobLogs): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of logs.read(JOB, 1, 0)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

async function keysOf(objects: ObjectStore): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of objects.list("")) keys.push(key);
  return keys;
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
