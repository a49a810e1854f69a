import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, test } from "node:test";
import { identifyProcess, isRunning } from "./process-identity.ts";

describe("the identity of a process", () => {
  test("holds while it runs and no longer", async () => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => undefined, 60_000)"]);
    await once(child, "spawn");
    const identity = await identifyProcess(child.pid ?? 0);
    assert.ok(identity);
    assert.equal(await isRunning(identity), true);

    child.kill("SIGKILL");
    await once(child, "exit");

    assert.equal(await isRunning(identity), false);
  });

  test("is not that of another process with the same number", async () => {
    const self = await identifyProcess(process.pid);
    assert.ok(self);

    assert.equal(await isRunning({ ...self, startTime: "another time" }), false);
  });

  test("does not survive a restart of the machine", {
    skip: process.platform !== "linux",
  }, async () => {
    const self = await identifyProcess(process.pid);
    assert.ok(self?.bootId);

    assert.equal(await isRunning({ ...self, bootId: "another life" }), false);
  });

  test("is unknown where there is no process", async () => {
    assert.equal(await identifyProcess(2 ** 22 + 1), undefined);
  });
});
