// What every spool promises, as tests: bytes by offset, and a log that is written again from its first
// byte, as after a crash, resumes behind what it has.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, type TestContext, test } from "node:test";
import { jobName } from "@exclave/core";
import type { Spool } from "../job/spool.ts";

const NAME = jobName("some-job", 1);
const bytes = (text: string) => Buffer.from(text);

export function describeSpool(name: string, create: (t: TestContext) => Promise<Spool>): void {
  describe(`${name} keeps the spool contract`, () => {
    test("gives back by offset what was written, and its length and digest", async (t) => {
      const spool = await create(t);
      const writer = await spool.write(NAME);
      await writer.append(bytes("hello "));
      await writer.append(bytes("world"));

      const finished = await writer.finish();
      await writer.release();

      assert.deepEqual(finished, { bytes: 11, sha256: sha256("hello world") });
      assert.equal(await text(spool, 4, 3), "o w");
      assert.equal(await text(spool, 9, 100), "ld");
    });

    test("counts what this writer has written, not what an earlier one left", async (t) => {
      const spool = await create(t);
      await write(spool, "hello wo");
      const writer = await spool.write(NAME);

      assert.equal(writer.bytes, 0);
      await writer.append(bytes("hello"));
      assert.equal(writer.bytes, 5);
      await writer.release();
    });

    test("resumes behind what it has when it is written again from the start", async (t) => {
      const spool = await create(t);
      await write(spool, "hello wo");

      const second = await spool.write(NAME);
      await second.append(bytes("hello"));
      await second.append(bytes(" world"));
      const finished = await second.finish();
      await second.release();

      assert.equal(finished.sha256, sha256("hello world"));
      assert.equal(await text(spool, 0, 100), "hello world");
    });

    test("is cut to what was written last when an earlier life had more", async (t) => {
      const spool = await create(t);
      await write(spool, "hello world");

      const second = await spool.write(NAME);
      await second.append(bytes("hello"));
      const finished = await second.finish();
      await second.release();

      assert.deepEqual(finished, { bytes: 5, sha256: sha256("hello") });
      assert.equal(await text(spool, 0, 100), "hello");
    });

    test("a removed log is gone, and removing it again is no error", async (t) => {
      const spool = await create(t);
      await write(spool, "x");

      await spool.remove(NAME);
      await spool.remove(NAME);

      await assert.rejects(spool.read(NAME, 0, 1), { code: "ENOENT" });
    });

    test("a sweep takes what belongs to no open job", async (t) => {
      const spool = await create(t);
      const other = jobName("other-job", 1);
      await write(spool, "x");
      await write(spool, "x", other);

      await spool.sweep(new Set([NAME]));

      assert.equal((await spool.read(NAME, 0, 1)).length, 1);
      await assert.rejects(spool.read(other, 0, 1), { code: "ENOENT" });
    });
  });
}

async function write(spool: Spool, content: string, name = NAME): Promise<void> {
  const writer = await spool.write(name);
  await writer.append(bytes(content));
  await writer.release();
}

async function text(spool: Spool, offset: number, length: number): Promise<string> {
  return Buffer.from(await spool.read(NAME, offset, length)).toString();
}

function sha256(content: string): string {
  return createHash("sha256").update(content).digest("hex");
}
