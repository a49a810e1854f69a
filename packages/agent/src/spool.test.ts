import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { jobName } from "@exclave/core";
import { createSpool } from "./spool.ts";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

const NAME = jobName("some-job", 1);
const bytes = (text: string) => Buffer.from(text);

test("gives back by offset what was written, and its length and digest", async (t) => {
  const spool = createSpool({ directory: await temporaryDirectory(t) });
  const writer = await spool.write(NAME);
  await writer.append(bytes("hello "));
  await writer.append(bytes("world"));

  const finished = await writer.finish();
  await writer.release();

  const sha256 = createHash("sha256").update("hello world").digest("hex");
  assert.deepEqual(finished, { bytes: 11, sha256 });
  assert.equal(Buffer.from(await spool.read(NAME, 4, 3)).toString(), "o w");
  assert.equal(Buffer.from(await spool.read(NAME, 9, 100)).toString(), "ld");
});

test("written again from the start, it keeps what it has and goes on behind it", async (t) => {
  const spool = createSpool({ directory: await temporaryDirectory(t) });
  const first = await spool.write(NAME);
  await first.append(bytes("hello wo"));
  await first.release();

  const second = await spool.write(NAME);
  await second.append(bytes("hello"));
  await second.append(bytes(" world"));
  const finished = await second.finish();
  await second.release();

  assert.equal(finished.sha256, createHash("sha256").update("hello world").digest("hex"));
  assert.equal(Buffer.from(await spool.read(NAME, 0, 100)).toString(), "hello world");
});

test("a removed log is gone, and removing it again is no error", async (t) => {
  const spool = createSpool({ directory: await temporaryDirectory(t) });
  const writer = await spool.write(NAME);
  await writer.append(bytes("x"));
  await writer.release();

  await spool.remove(NAME);
  await spool.remove(NAME);

  await assert.rejects(spool.read(NAME, 0, 1), { code: "ENOENT" });
});

test("a sweep takes what belongs to no open job", async (t) => {
  const spool = createSpool({ directory: await temporaryDirectory(t) });
  const other = jobName("other-job", 1);
  for (const name of [NAME, other]) {
    const writer = await spool.write(name);
    await writer.append(bytes("x"));
    await writer.release();
  }

  await spool.sweep(new Set([NAME]));

  assert.equal((await spool.read(NAME, 0, 1)).length, 1);
  await assert.rejects(spool.read(other, 0, 1), { code: "ENOENT" });
});
