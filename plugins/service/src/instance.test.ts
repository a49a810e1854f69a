import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { identifyProcess, isRunning } from "@exclave/plugin-sdk/processes";
import { instanceFiles, readStatus, startInstance, stopInstance, writeStatus } from "./instance.ts";

/** A supervisor that says nothing by itself. */
async function started(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), "exclave-instance-"));
  const script = join(directory, "supervisor.mjs");
  await writeFile(script, "setInterval(() => {}, 1e6);");
  startInstance(directory, { node: process.execPath, script });
  t.after(async () => {
    await stopInstance(directory);
    await rm(directory, { recursive: true, force: true });
  });
  const supervisor = readStatus(directory)?.supervisor;
  assert.ok(supervisor);
  return { directory, supervisor };
}

test("a start never writes what only the supervisor may say", async (t) => {
  const { directory, supervisor } = await started(t);

  assert.equal(existsSync(instanceFiles(directory).status), false);
  assert.equal(readStatus(directory)?.state, "backing-off");
  writeStatus(directory, { state: "running", supervisor, restarts: 0 });
  assert.equal(readStatus(directory)?.state, "running");
});

test("a supervisor can be stopped before it has said anything", async (t) => {
  const { directory, supervisor } = await started(t);

  await stopInstance(directory);

  assert.equal(isRunning(supervisor), false);
});

test("a status from an earlier life does not hide the supervisor that was just started", async (t) => {
  const { directory, supervisor } = await started(t);
  const self = identifyProcess(process.pid);
  assert.ok(self);

  writeStatus(directory, {
    state: "running",
    supervisor: { ...self, startTime: "0" },
    restarts: 7,
  });

  assert.deepEqual(readStatus(directory), { state: "backing-off", supervisor, restarts: 0 });
});
