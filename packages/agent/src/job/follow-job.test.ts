import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { createSystemTimers } from "@exclave/api";
import { createFakeRuntime, type FakeProgram } from "@exclave/runtime/testing";
import { DIGEST, job, recordOf, silentLog } from "../testing/builders.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { digestOfOutputs, followJob } from "./follow-job.ts";
import { createSpool, type Spool } from "./spool.ts";

async function follow(program: FakeProgram, spool: Spool) {
  const record = recordOf(job());
  const runtime = createFakeRuntime({ programOf: () => program });
  const image = { registryUrl: "http://install.test", repository: "r", digest: DIGEST };
  const { name } = record;
  const given = { files: {}, environment: {}, limits: {}, deadlineMs: 60_000 };
  await runtime.start({ name, image, jobClass: "apply", network: "none", ...given });
  return followJob({
    runtime,
    output: (name, signal) => runtime.output(name, 0, signal),
    spool,
    record,
    secrets: ["hunter22"],
    logBytesMax: 1_000_000,
    outputsKey: "key",
    isCancelled: () => false,
    onSpooled() {},
    signal: new AbortController().signal,
    timers: createSystemTimers(),
    log: silentLog,
  });
}

test("reads a job to its end: its outputs by name, its log without secrets", async (t) => {
  const spool = createSpool({ directory: await temporaryDirectory(t) });

  const ended = await follow(async ({ say }) => {
    say('{"type":"output","name":"b","value":2}\n{"type":"output","name":"a","value":1}\n');
    say('the password is hunter22\n{"type":"result","ok":true}\n');
    return 0;
  }, spool);

  assert.deepEqual(ended.outcome, { kind: "succeeded" });
  assert.deepEqual(
    ended.outputs.map(({ name }) => name),
    ["a", "b"],
  );
  const log = Buffer.from(await spool.read(recordOf(job()).name, 0, 1_000)).toString();
  assert.equal(log.split("\n")[2], "the password is [redacted]");
  assert.equal(ended.logSha256, createHash("sha256").update(log).digest("hex"));
});

test("a full disk delays a log and loses nothing of it", async (t) => {
  const spool = createSpool({ directory: await temporaryDirectory(t) });
  let failures = 1;
  const full: Spool = {
    ...spool,
    async write(name) {
      const writer = await spool.write(name);
      return {
        append(bytes) {
          if (failures-- > 0) throw Object.assign(new Error("no room"), { code: "ENOSPC" });
          return writer.append(bytes);
        },
        finish: () => writer.finish(),
        release: () => writer.release(),
        get bytes() {
          return writer.bytes;
        },
      };
    },
  };

  const ended = await follow(async ({ say }) => {
    say('one line\n{"type":"result","ok":true}\n');
    return 0;
  }, full);

  assert.equal(failures, -1, "it was retried");
  assert.equal(ended.logBytes, "one line\n".length);
  assert.deepEqual(ended.outcome, { kind: "succeeded" });
});

test("the digest of outputs tells a change and nothing to whoever lacks the key", () => {
  const outputs = [{ name: "a", value: 1, sensitive: false }];
  const other = [{ name: "a", value: 2, sensitive: false }];

  assert.equal(digestOfOutputs(outputs, "k"), digestOfOutputs(outputs, "k"));
  assert.notEqual(digestOfOutputs(outputs, "k"), digestOfOutputs(other, "k"));
  assert.notEqual(digestOfOutputs(outputs, "k"), digestOfOutputs(outputs, "another"));
});
