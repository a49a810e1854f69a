import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, test } from "node:test";
import { identifyProcess, isRunning, parseProcStat } from "./process-identity.ts";

describe("the identity of a process", () => {
  test("holds while it runs and no longer", async () => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => undefined, 60_000)"]);
    await once(child, "spawn");
    const identity = identifyProcess(child.pid ?? 0);
    assert.ok(identity);
    assert.equal(isRunning(identity), true);

    child.kill("SIGKILL");
    await once(child, "exit");

    assert.equal(isRunning(identity), false);
  });

  test("is not that of another process with the same number", () => {
    const self = identifyProcess(process.pid);
    assert.ok(self);

    assert.equal(isRunning({ ...self, startTime: "another time" }), false);
  });

  test("does not survive a restart of the machine", {
    skip: process.platform !== "linux",
  }, () => {
    const self = identifyProcess(process.pid);
    assert.ok(self?.bootId);

    assert.equal(isRunning({ ...self, bootId: "another life" }), false);
  });

  test("is unknown where there is no process", () => {
    assert.equal(identifyProcess(2 ** 22 + 1), undefined);
  });
});

test("reads the fields after a program name that tries to look like them", () => {
  const fields = `S 1 42 41 0 -1 ${"0 ".repeat(13)}98765 0`;

  assert.deepEqual(parseProcStat(`43 (a) R 9 9 (b) ${fields}`), {
    pid: 43,
    group: 42,
    session: 41,
    startTime: "98765",
    isZombie: false,
  });
});
